"""The verbs: each takes ``now`` from its door, asks the core, and lets the store write."""

from scheduling.store.clock import now

__all__ = ["now"]
