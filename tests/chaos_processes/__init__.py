"""Chaos with real processes: a house of web, scheduler, Celery, broker, database and nodes; its faults; its judge."""
