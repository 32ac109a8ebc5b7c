"""Programs that print figures. Run one with ``python -m benchmarks.NAME``; none of them is a test."""
