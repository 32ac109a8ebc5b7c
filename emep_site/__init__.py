"""The wiring: settings, URLs, ASGI and Celery. Knows every part and decides nothing."""
