"""What needs torch: DataLoader workers, ranks, merges, evaluations. In one group, since each import costs seconds."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.workers.agent.test_whole_node import gone
from tests.workers.agent.waiting import until
from tests.workers.contract import programs
from tests.workers.contract.house import House, house
from tests.workers.engines.builders import random_model
from tests.workers.engines.evaluations import DECODER, MLP, family_model, json_lines, labelled, texts
from workers import emep_job
from workers.protocol import Timings

pytestmark = pytest.mark.xdist_group("torch programs")
# Imports take seconds of both cores: a node that was fenced for that would prove nothing.
PATIENT = Timings().scaled(0.2)


def test_a_script_with_loader_workers_resumes_to_the_bytes_of_an_undisturbed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "train.py").write_text(programs.LOADER)
    monkeypatch.chdir(alone)
    monkeypatch.setitem(sys.modules, "emep_job", emep_job)
    monkeypatch.setattr(emep_job, "_session", None)
    monkeypatch.setattr(sys, "argv", ["train.py"])
    runpy.run_path("train.py", run_name="__main__")
    with house(tmp_path, PATIENT) as at:
        job = at.start(programs.LOADER, "slow")
        at.progressed(job)
        stopped = at.preempt(job)
        assert (stopped["exit_code"], stopped["detail"]) == (85, "confirmed")
        again = at.start(programs.LOADER, resume=at.resume(stopped))
        resumed = at.end(again)
        assert at.log(again) == f"resumed at {stopped['step']}\n"
        assert at.output(resumed) == {"net.bin": (alone / "net.bin").read_bytes()}


def test_two_ranks_under_torchrun_stop_at_one_step_and_are_saved_though_torchrun_exits_1(tmp_path: Path) -> None:
    with house(tmp_path, PATIENT) as at:
        job = at.start(programs.RANKS, params={"torchrun": True}, gpus=["SIM-0", "SIM-1"])
        at.progressed(job)
        leader = int(at.node.file("pid.json", job)["pid"])
        stopped = at.preempt(job)
        said = (stopped["outcome"], stopped["exit_code"], stopped["detail"], gone(leader))
        assert said == ("PREEMPTED", 1, "confirmed", True)
        steps = dict(re.findall(r"rank (\d) leaves at (\d+)", at.log(job)))
        assert steps == {"0": str(stopped["step"]), "1": str(stopped["step"])}
        total = f"{2 * stopped['step']} of 2 ranks at {stopped['step']}"
        assert at.checkpoint(stopped)[f"framework/step-{stopped['step']}/total"].decode() == total


def test_two_agents_start_their_parts_together_and_the_ranks_add_up_over_gloo(tmp_path: Path) -> None:
    (tmp_path / "n0").mkdir()
    (tmp_path / "n1").mkdir()
    with house(tmp_path / "n0", PATIENT) as first, house(tmp_path / "n1", PATIENT) as second:
        for rank, at in enumerate((first, second)):
            at.start(programs.SUM, node_rank=rank, node_count=2)
        port, none = (
            until(lambda at=at: at.server.got("ready"), "a part to be ready")[0]["port"] for at in (first, second)
        )
        assert none == 0
        for at in (second, first):
            at.server.go("a1", "127.0.0.1", port)
        assert [at.end("a1")["outcome"] for at in (first, second)] == ["SUCCEEDED"] * 2
        assert [at.log("a1") for at in (first, second)] == [f"rank {rank} of 2 has 3\n" for rank in (0, 1)]
        assert [len(at.server.got("progress")) for at in (first, second)] == [1, 0]


def _merge(at: House, tmp_path: Path, **launch: Any) -> str:
    """A merge of two small models, by the launch document the server would send."""
    inputs = [at.input_of(f"model-{i}", random_model(tmp_path / f"model-{i}", i)) for i in range(2)]
    params = {"strategy": "slerp", "models": ["art-model-0", "art-model-1"], "t": 0.3, "seed": 7}
    return at.grant(params, kind="merge", inputs=inputs, **launch)


def _evaluation(at: House, tmp_path: Path, **launch: Any) -> str:
    """An evaluation of a small language model in eight batches."""
    json_lines(tmp_path / "dataset" / "test.jsonl", texts(30))
    inputs = [at.input_of("model", family_model(tmp_path / "model", DECODER)),
              at.input_of("dataset", tmp_path / "dataset")]  # fmt: skip
    params = {"model": "art-model", "dataset": "art-dataset", "batch_size": 4}
    return at.grant(params, kind="evaluate", inputs=inputs, **launch)


def _inference(at: House, tmp_path: Path, **launch: Any) -> str:
    """What a small language model draws behind 30 texts, in eight batches."""
    json_lines(tmp_path / "input" / "rows.jsonl", texts(30))
    inputs = [at.input_of("model", family_model(tmp_path / "model", DECODER)), at.input_of("input", tmp_path / "input")]
    params = {"model": "art-model", "input": "art-input", "batch_size": 4, "max_new_tokens": 9, "temperature": 5}
    return at.grant(params, kind="infer", inputs=inputs, **launch)


def _search(at: House, tmp_path: Path, **launch: Any) -> str:
    """A search over the t of each layer of two small classifiers, 17 evaluations."""
    for seed, name in enumerate(("dataset", "test-dataset")):
        json_lines(tmp_path / name / "rows.jsonl", labelled(40, seed))
    inputs = [at.input_of(f"model-{i}", family_model(tmp_path / f"classifier-{i}", MLP, i)) for i in range(2)]
    inputs += [at.input_of(name, tmp_path / name) for name in ("dataset", "test-dataset")]
    params = {
        "merge": {"strategy": "slerp", "models": ["art-model-0", "art-model-1"]},
        "space": [{"name": "t", "low": 0, "high": 1, "per": "layer"}], "objective": {"dataset": "art-dataset"},
        "test": {"dataset": "art-test-dataset"}, "population": 4, "budget": 13, "grid": 3,
    }  # fmt: skip
    return at.grant(params, kind="evolve", inputs=inputs, **launch)


@pytest.mark.parametrize(
    "start", [_merge, _evaluation, _inference, _search], ids=["merge", "evaluate", "infer", "evolve"]
)
def test_a_job_that_is_preempted_and_resumed_writes_the_undisturbed_bytes(
    start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("MERGE", "EVALUATE", "INFER", "EVOLVE"):
        monkeypatch.setenv(f"EMEP_{kind}_THROTTLE_S", "0.2")
    with house(tmp_path, PATIENT) as at:
        undisturbed, disturbed = (start(at, tmp_path) for _ in range(2))
        at.progressed(disturbed)
        stopped = at.preempt(disturbed)
        assert (stopped["outcome"], stopped["detail"]) == ("PREEMPTED", "confirmed")
        assert "experiment.json" in at.checkpoint(stopped)
        again = start(at, tmp_path, resume=at.resume(stopped))
        assert at.outputs(at.end(again)) == at.outputs(at.end(undisturbed)) != []
        until(lambda: "resume:" in at.log(again), "the word of the resume")
        assert "resume: 0 of" not in at.log(again)
