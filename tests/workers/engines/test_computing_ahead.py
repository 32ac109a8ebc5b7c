"""A stretch is computed while the one before it is written, in the same order, and nothing goes on after the end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from tests.workers.engines.builders import candidate, plan_of, random_model
from workers.engines.producing import ahead, produce
from workers.engines.writing import PlannedWriter

PATIENCE_S = 30.0


def test_the_next_stretch_is_begun_before_the_one_in_hand_is_given_back():
    begun = [threading.Event() for _ in range(3)]

    def computed() -> Iterator[torch.Tensor]:
        for number, event in enumerate(begun):
            event.set()
            yield torch.tensor([number])

    seen = []
    with ThreadPoolExecutor(1) as beside:
        for stretch in ahead(computed(), beside):
            assert all(event.wait(PATIENCE_S) for event in begun[: len(seen) + 2])
            seen.append(int(stretch))
    assert seen == [0, 1, 2]


def test_what_goes_wrong_in_computing_is_raised_where_the_stretch_is_asked_for():
    def computed() -> Iterator[torch.Tensor]:
        yield torch.zeros(1)
        raise ZeroDivisionError

    with ThreadPoolExecutor(1) as beside:
        stretches = ahead(computed(), beside)
        assert float(next(stretches)) == 0.0
        with pytest.raises(ZeroDivisionError):
            next(stretches)


@pytest.mark.parametrize("at", [0, 2])
def test_a_write_that_fails_ends_the_computing_too(at, tmp_path: Path, monkeypatch):
    made = candidate(random_model(tmp_path / "a", 1), random_model(tmp_path / "b", 2), chunk=50)
    writer = PlannedWriter(plan_of(made), tmp_path / "work")
    writer.open()

    def failing(tensor, stretches):
        for number, _ in enumerate(stretches):
            if number == at:
                raise OSError("the disk is gone")

    monkeypatch.setattr(writer, "write", failing)
    with pytest.raises(OSError, match="the disk is gone"):
        produce(made, writer)
    writer.close()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("stretch")]
