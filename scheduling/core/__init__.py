"""The decision: from a snapshot of the world to a plan, as a pure function.

Standard library only. Nothing here reads a clock, throws dice, opens a file or a database, or logs: time is an
argument, a refusal is a value, and the same snapshot gives the same plan, byte for byte.
"""
