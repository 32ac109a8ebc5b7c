"""Doors for operators: each command calls a service."""
