"""A candidate that is never written is judged as one that was; several at a time come in their order."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch

from tests.workers.engines.evaluations import CPU, MLP, family_model, json_lines, labelled
from workers.engines.candidates import Judge, in_memory, in_order, tried
from workers.engines.in_batches import Abandoned
from workers.engines.merging import MergeEngine
from workers.engines.models import load
from workers.engines.planning import plan_output
from workers.engines.producing import produce
from workers.engines.refusals import EngineRefusal
from workers.engines.samples import read_samples
from workers.engines.sources import open_model
from workers.engines.tensors import load_tensors
from workers.engines.writing import PlannedWriter
from workers.model_families import FAMILIES


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    rows = json_lines(tmp_path / "rows.jsonl", labelled(30))
    samples = read_samples(rows, MLP, "classify", limit=None, label="rows")
    return Judge(FAMILIES["mlp"], MLP, samples, 8, ["accuracy", "loss"])


def candidate(tmp_path: Path, out_dtype: str | None = None, **changed):
    models = [family_model(tmp_path / name, MLP, seed, **changed) for seed, name in enumerate("ab")]
    return MergeEngine().merge("slerp", load_tensors(*models), {"t": 0.3, "out_dtype": out_dtype})


@pytest.mark.parametrize("out_dtype", [None, "bfloat16", "float16"])
def test_it_has_the_bits_and_the_metrics_of_the_one_that_was_written(out_dtype, judge: Judge, tmp_path: Path) -> None:
    made = candidate(tmp_path, out_dtype)
    plan = plan_output(made.outputs, metadata=made.metadata, identity={})
    writer = PlannedWriter(plan, tmp_path / "work")
    writer.open()
    produce(made, writer)
    writer.publish(tmp_path / "written")
    stored, merged = open_model(tmp_path / "written", "it"), in_memory(made, "it", CPU)
    for name, tensor in load(stored, MLP, [CPU]).modules[0].state_dict().items():
        assert torch.equal(load(merged, MLP, [CPU]).modules[0].state_dict()[name], tensor)
    assert judge.measured(merged, CPU, lambda: False) == judge.measured(stored, CPU, lambda: False)


def test_one_that_overflows_has_failed_by_the_name_of_what_is_wrong(judge: Judge, tmp_path: Path) -> None:
    made = candidate(tmp_path, "float16", _0__weight=torch.full((7, 5), 1e6))
    found = tried(lambda: in_memory(made, "it", CPU), judge, CPU, lambda: False)
    assert (found.metrics, found.failed) == (None, "nonfinite_output")
    assert "0.weight" in found.why


def test_one_whose_first_metric_is_no_number_has_failed_and_keeps_the_others(judge: Judge, tmp_path: Path) -> None:
    made = candidate(tmp_path, _0__weight=torch.full((7, 5), 1e308, dtype=torch.float64))
    by_loss = Judge(judge.family, judge.config, judge.samples, judge.batch_size, ["loss", "accuracy"])
    found = tried(lambda: in_memory(made, "it", CPU), by_loss, CPU, lambda: False)
    assert (found.failed, found.metrics["loss"]) == ("not_finite", None)
    assert 0 <= found.metrics["accuracy"] <= 1
    assert tried(lambda: in_memory(made, "it", CPU), judge, CPU, lambda: False).failed is None


@pytest.mark.parametrize(
    ("error", "code"),
    [(torch.OutOfMemoryError("CUDA out of memory"), "out_of_memory"), (MemoryError("no room"), "out_of_memory"),
     (RuntimeError("device-side assert"), "error"), (EngineRefusal("config", "no"), "config")],
)  # fmt: skip
def test_what_goes_wrong_with_one_ends_nothing(error, code, judge: Judge) -> None:
    def broken():
        raise error

    assert tried(broken, judge, CPU, lambda: False).failed == code


def test_a_file_that_is_cut_short_is_not_the_fault_of_a_candidate(judge: Judge, tmp_path: Path) -> None:
    made = candidate(tmp_path)
    path = tmp_path / "a" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(EngineRefusal, match="became shorter"):
        tried(lambda: in_memory(made, "it", CPU), judge, CPU, lambda: False)


def test_with_no_time_left_it_is_given_up_inside(judge: Judge, tmp_path: Path) -> None:
    made = candidate(tmp_path)
    with pytest.raises(Abandoned):
        tried(lambda: in_memory(made, "it", CPU), judge, CPU, lambda: True)


DEVICES = pytest.mark.parametrize("devices", [1, 2, 4])


@DEVICES
def test_results_come_in_the_order_of_the_asks_whoever_is_done_first(devices) -> None:
    first_may_end, found = threading.Event(), []

    def work(ask, device):
        if ask == 0 and devices > 1:
            assert first_may_end.wait(10)
        if ask == devices - 1:
            first_may_end.set()
        return ask * ask

    assert in_order(range(9), [CPU] * devices, work, lambda ask, made: found.append((ask, made)), lambda: False)
    assert found == [(n, n * n) for n in range(9)]


@DEVICES
def test_asked_to_stop_it_begins_no_more_and_hands_over_what_is_in_hand(devices) -> None:
    begun, found = [], []
    together = threading.Barrier(devices)

    def work(ask, device):
        begun.append(ask)
        together.wait(10)
        return ask

    over = in_order(range(9), [CPU] * devices, work, lambda ask, made: found.append(ask), lambda: len(begun) >= devices)
    assert (over, found) == (False, list(range(devices)))


@DEVICES
def test_one_that_is_given_up_ends_it_without_those_behind(devices) -> None:
    found = []

    def work(ask, device):
        if ask == 2:
            raise Abandoned
        return ask

    assert not in_order(range(9), [CPU] * devices, work, lambda ask, made: found.append(ask), lambda: False)
    assert found == [0, 1]


@DEVICES
def test_an_exception_is_raised_and_stops_the_others(devices) -> None:
    begun = []

    def work(ask, device):
        begun.append(ask)
        if ask == 1:
            raise OSError("disk on fire")
        return ask

    with pytest.raises(OSError, match="disk on fire"):
        in_order(range(1000), [CPU] * devices, work, lambda ask, made: None, lambda: False)
    assert len(begun) < 1000
