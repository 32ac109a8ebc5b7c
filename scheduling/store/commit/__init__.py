"""The only writer of state. Every change is guarded by the state it starts from; its events share its transaction.

A guard that finds another state is no error: the function says so in its return value, and nothing is written.
"""
