"""The verbs. Each takes ``now`` from its door, asks the core, and lets the store write. No door, no model, no Celery."""

from scheduling.store.clock import now

__all__ = ["now"]
