"""What a search calls its rows and scores: the job that writes them and the pages that show them. Standard library
only."""

from __future__ import annotations

from collections.abc import Mapping

SEARCH, TESTED = "search", "test"
# The best of all points, and the best of those that were tried before the first generation.
BEST, FIXED = "best", "fixed"
# Series of a search, by generation: the best score so far, and the mean of the generation.
BEST_SO_FAR, MEAN = "best", "mean"
# 1: the higher the better, -1: the lower.
DIRECTIONS: Mapping[str, int] = {"accuracy": 1, "loss": -1, "perplexity": -1, "bits_per_byte": -1}
