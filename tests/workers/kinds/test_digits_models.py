"""The demo models: reproducible, and worth merging."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch

from tests.workers.engines.builders import candidate, merged, sha256
from workers.engines.samples import read_samples
from workers.kinds.digits import accuracy, split, train_models, write_models, write_samples

HALVES = ["digits-0-4", "digits-5-9"]


@cache
def models():
    return train_models(0)


def test_training_twice_gives_the_same_files(tmp_path: Path) -> None:
    write_models(tmp_path / "1", models())
    write_models(tmp_path / "2", train_models(0))
    first, second = (
        {p.relative_to(tmp_path / n).as_posix(): sha256(p) for p in (tmp_path / n).rglob("*") if p.is_file()}
        for n in "12"
    )
    assert (len(first), first) == (6, second)


@pytest.mark.parametrize("half", HALVES)
def test_each_parent_alone_reads_less_than_60_percent(half: str) -> None:
    assert accuracy(models()[half], split(0)["test"]) < 0.60


@pytest.mark.parametrize(("strategy", "params"), [("slerp", {"t": 0.5}), ("linear", {})])
def test_the_merge_of_the_halves_reads_85_percent_and_more_than_the_base(strategy, params, tmp_path: Path) -> None:
    write_models(tmp_path, models())
    made = merged(candidate(*(tmp_path / h for h in HALVES), strategy=strategy, **params))
    test = split(0)["test"]
    assert accuracy(made, test) >= max(0.85, accuracy(models()["digits-base"], test))


def test_the_splits_have_the_sizes_of_the_demonstration_and_do_not_overlap() -> None:
    parts = split(0)
    assert {n: len(i.digits) for n, i in parts.items()} == {"base": 150, "train": 628, "search": 631, "test": 538}


def test_the_test_images_as_a_data_set_are_the_same_images(tmp_path: Path) -> None:
    test = split(0)["test"]
    write_samples(tmp_path, test)
    config = {"model_type": "mlp", "layer_sizes": [64, 10], "activation": "relu"}
    read = read_samples(tmp_path / "test.jsonl", config, "classify", label="test")
    assert torch.equal(read.inputs, test.pixels.double())
    assert torch.equal(read.labels, test.digits)
