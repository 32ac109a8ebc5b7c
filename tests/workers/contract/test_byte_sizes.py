"""Sizes as people write them."""

from __future__ import annotations

import pytest

from workers.byte_sizes import whole_bytes
from workers.merge_params import check_merge

MODELS = {"strategy": "linear", "models": ["a", "b"]}


@pytest.mark.parametrize(
    ("said", "size"),
    [(5, 5), ("5GB", 5 * 10**9), ("10MB", 10**7), ("500MiB", 500 * 2**20), ("1.5 gb", 1_500_000_000), ("7", 7),
     ("2TiB", 2**41), (" 3KB ", 3000), ("1.5", 1)],
)  # fmt: skip
def test_a_size_is_its_bytes(said: object, size: int) -> None:
    assert whole_bytes(said) == size


@pytest.mark.parametrize(
    "said", [None, True, 5.0, "", "GB", "5XB", "-5GB", "5 G B", "5\u00a0GB", "\u0665GB", [5], "1e9"]
)
def test_what_is_no_size_has_none(said: object) -> None:
    assert whole_bytes(said) is None


def test_the_shards_of_a_merge_are_stored_as_bytes() -> None:
    clean, errors = check_merge({**MODELS, "max_shard_size": "5GB"})
    assert (clean["max_shard_size"], errors) == (5 * 10**9, [])


@pytest.mark.parametrize("said", ["5XB", "10KB", 5, True, 2.5e9])
def test_other_shards_are_refused_with_what_they_may_be(said: object) -> None:
    (wrong,) = check_merge({**MODELS, "max_shard_size": said})[1]
    assert (wrong.field, wrong.code) == ("params.max_shard_size", "out_of_range")
    assert "a text like 5GB or 500MiB, at least" in wrong.message
