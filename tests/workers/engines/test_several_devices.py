"""A merge shared out to several devices has the bytes of one, however often and on however many it is continued.

The devices here are CPUs: the code that shares out, computes and writes is that of GPUs, a thread each.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.workers.engines.builders import (
    by_recipe,
    candidate,
    layered_model,
    model,
    plan_of,
    random_model,
    refusal,
    sha256,
    written,
)
from tests.workers.engines.dying import run_and_die
from tests.workers.engines.recipes import RECIPES, recipe_of
from tests.workers.engines.test_recipes import ALL
from workers.engines.merging import CPU, Candidate
from workers.engines.producing import partition, produce
from workers.engines.writing import PlannedWriter

SHARD = 1000


def attempt(
    made: Candidate, place: Path, devices: int, *, tensors: int | None = None, shard: int | None = SHARD
) -> set[str]:
    """One attempt on so many devices that stops after so many tensors or publishes; what was there before it."""
    looks = iter(range(10_000))
    writer = PlannedWriter(plan_of(made, max_shard_size=shard), place / "work", flush_bytes=1)
    try:
        kept = set(writer.open())
        stop = (lambda: False) if tensors is None else (lambda: next(looks) >= tensors)
        if produce(made, writer, devices=[CPU] * devices, should_stop=stop):
            writer.publish(place / "out")
        else:
            writer.keep()
        return kept
    finally:
        writer.close()


def digests(place: Path) -> dict[str, str]:
    return {path.name: sha256(path) for path in (place / "out").iterdir()}


def undisturbed(made: Candidate, place: Path, shard: int | None = SHARD) -> dict[str, str]:
    written(made, place, max_shard_size=shard)
    return digests(place)


def merge_by(place: Path, strategy: str) -> Candidate:
    """A merge by this strategy's recipe, in small chunks."""
    if strategy == "passthrough":
        return candidate(random_model(place / "a", 1), strategy=strategy, chunk=50, **RECIPES[strategy])
    return recipe_of(place, strategy, chunk=50)


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("strategy", RECIPES)
def test_every_strategy_has_the_same_bytes_on_any_number_of_devices(strategy, devices, tmp_path: Path) -> None:
    made = merge_by(tmp_path, strategy)
    attempt(made, tmp_path / "shared", devices)
    assert digests(tmp_path / "shared") == undisturbed(made, tmp_path / "one")


@pytest.mark.parametrize("document", ALL.values(), ids=ALL)
def test_every_recipe_has_the_same_bytes_on_any_number_of_devices(document: Any, tmp_path: Path) -> None:
    models = {name: layered_model(tmp_path / name, seed) for seed, name in enumerate(("a", "b", "base"))}
    made = by_recipe(document, models, chunk=7, seed=3)
    expected = undisturbed(made, tmp_path / "one")
    for devices in (2, 4):
        attempt(made, tmp_path / f"{devices}", devices)
        assert digests(tmp_path / f"{devices}") == expected


@pytest.mark.parametrize("counts", [(4, 2, 1), (1, 4, 2), (2, 1, 4)], ids=str)
@pytest.mark.parametrize("strategy", RECIPES)
def test_stopped_and_continued_on_another_number_of_devices(strategy, counts: Sequence[int], tmp_path: Path) -> None:
    made = merge_by(tmp_path, strategy)
    expected = undisturbed(made, tmp_path / "one")
    kept = [len(attempt(made, tmp_path / "shared", devices, tensors=2)) for devices in counts[:2]]
    kept.append(len(attempt(made, tmp_path / "shared", counts[2])))
    assert (kept, digests(tmp_path / "shared")) == ([0, 2, 4], expected)


@pytest.mark.parametrize("counts", [(4, 1), (2, 3)], ids=str)
def test_killed_at_any_step_and_continued_on_another_number_of_devices(counts: Sequence[int], tmp_path: Path) -> None:
    made = recipe_of(tmp_path, "dare_ties")
    expected, step, died = undisturbed(made, tmp_path / "one", None), 0, True
    while died:
        step += 1
        place = tmp_path / f"{step}"
        died = run_and_die(lambda place=place: attempt(made, place, counts[0], shard=None), step)
        if died:
            attempt(made, place, counts[1], shard=None)
        assert digests(place) == expected
        assert list((place / "work").iterdir()) == []
    assert step > 20


def test_each_device_computes_its_share_by_size_in_the_order_of_the_plan(tmp_path: Path) -> None:
    random_model(tmp_path / "a", 1)
    random_model(tmp_path / "b", 2)
    made = candidate(tmp_path / "a", tmp_path / "b")
    writer = PlannedWriter(plan_of(made), tmp_path / "work")
    writer.open()
    done: dict[int, list[str]] = {}
    all_began = threading.Barrier(3)  # so that none does what another should

    def on_tensor(tensor: Any) -> None:
        mine = done.setdefault(threading.get_ident(), [])
        mine.append(tensor.spec.name)
        if len(mine) == 1:
            all_began.wait(timeout=60)

    assert produce(made, writer, devices=[CPU] * 3, on_tensor=on_tensor)
    writer.close()
    shares = [[t.spec.name for t in share] for share in partition(plan_of(made).tensors, 3)]
    assert sorted(done.values()) == sorted(shares)
    sizes = sorted(sum(t.spec.nbytes for t in share) for share in partition(plan_of(made).tensors, 3))
    assert sizes == [656, 1028, 5280]


def test_more_devices_than_tensors_leave_some_without_work(tmp_path: Path) -> None:
    places = [model(tmp_path / name, {"w": [value]}) for name, value in (("a", 1.0), ("b", 3.0))]
    made = candidate(*places, strategy="linear")
    attempt(made, tmp_path / "shared", 5)
    assert digests(tmp_path / "shared") == undisturbed(made, tmp_path / "one")


def spoiled(directory: Path, *names: str) -> Path:
    tensors = {name: [1.0, float("nan") if name in names else 2.0] for name in "abcd"}
    return model(directory, tensors)


def test_of_refusals_on_several_devices_the_first_in_the_plan_is_raised_and_nothing_published(tmp_path: Path) -> None:
    made = candidate(spoiled(tmp_path / "m", "b", "c"), spoiled(tmp_path / "n"), strategy="linear")
    writer = PlannedWriter(plan_of(made), tmp_path / "work")
    writer.open()
    both_there = threading.Barrier(2)
    real = Candidate.chunks

    def together(self: Candidate, spec: Any, device: torch.device = CPU) -> Any:
        if spec.name in ("b", "c"):
            both_there.wait(timeout=60)
        return real(self, spec, device)

    shares = [[t.spec.name for t in share] for share in partition(plan_of(made).tensors, 2)]
    assert shares == [["a", "c"], ["b", "d"]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Candidate, "chunks", together)
        refused = refusal(produce, made, writer, devices=[CPU] * 2)
    writer.close()
    assert (refused.code, refused.details["tensor"], (tmp_path / "out").exists()) == ("nonfinite_input", "b", False)


@pytest.mark.parametrize("failure", [OSError("broken"), ValueError("a bug")])
def test_an_error_on_one_device_ends_all_and_is_raised(failure: Exception, tmp_path: Path) -> None:
    random_model(tmp_path / "a", 1)
    made = candidate(tmp_path / "a", tmp_path / "a")
    writer = PlannedWriter(plan_of(made), tmp_path / "work")
    writer.open()

    def fail(tensor: Any, stretches: Any) -> None:
        raise failure

    writer.write = fail  # type: ignore[method-assign]
    ask: Callable[[], bool] = lambda: False  # noqa: E731
    with pytest.raises(type(failure), match=str(failure)):
        produce(made, writer, devices=[CPU] * 2, should_stop=ask)
    writer.close()
