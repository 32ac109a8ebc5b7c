"""Decides from two independent logs, the product's events and what the job processes wrote, whether it kept its word.

``python -m tests.checker --events FILE --truth DIR`` as a program; :func:`tests.checker.check.check` for tests.
"""
