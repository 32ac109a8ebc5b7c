"""The job as the agent sees it: a process, its signals, its exit code."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.workers.kinds.builders import Job, evaluate_job, evolve_job, infer_job, merge_job

THROTTLES = [f"EMEP_{kind}_THROTTLE_S" for kind in ("MERGE", "EVALUATE", "INFER", "EVOLVE")]
SLOW, QUICK = dict.fromkeys(THROTTLES, "60"), dict.fromkeys(THROTTLES, "0")
# Each kind, how far it is when it is caught, and what it says when it goes on from there.
KINDS = pytest.mark.parametrize(
    ("make", "step", "kept"),
    [
        (merge_job, 1, "resume: 1 of 6 tensors"),
        (evaluate_job, 4, "resume: 4 of 10 samples"),
        (infer_job, 4, "resume: 4 of 10 rows"),
        (evolve_job, 1, "resume: 1 of 21 evaluations"),
    ],
    ids=["merge", "evaluate", "infer", "evolve"],
)


def caught_in_the_middle(job: Job, step: int) -> subprocess.Popen[str]:
    """The running process, after its first steps, while it waits for the throttle."""
    process = job.start()
    for line in process.stdout:
        if line.startswith(f"{job.kind} {step}/"):
            return process
    raise AssertionError(f"it never came to step {step}: {process.stderr.read()}")


def both(make, tmp_path: Path) -> tuple[Job, Job]:
    """A slow job, and one that does the same without being disturbed and is done."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    undisturbed = make(tmp_path / "b")
    assert undisturbed.run() == 0
    return make(tmp_path / "a", **SLOW, EMEP_GPU_COUNT="1"), undisturbed


def finished(job: Job) -> tuple[int, str, str]:
    process = job.start()
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@KINDS
def test_sigterm_in_the_middle_saves_exits_85_and_the_next_attempt_writes_the_undisturbed_bytes(
    make, step: int, kept: str, tmp_path: Path
) -> None:
    job, undisturbed = both(make, tmp_path)
    process = caught_in_the_middle(job, step)
    asked = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert (process.wait(timeout=30), time.monotonic() - asked < 30) == (85, True)
    process.communicate()
    assert [(e["type"], e["step"]) for e in job.events] == [("progress", step), ("checkpoint", step)]
    again = job.next_attempt(**QUICK)
    code, out, err = finished(again)
    assert (code, err, kept in out) == (0, "", True)
    assert again.made == undisturbed.made


def test_the_checkpoint_of_a_merge_says_how_far_it_is(tmp_path: Path) -> None:
    job = merge_job(tmp_path, **SLOW, EMEP_GPU_COUNT="1")
    process = caught_in_the_middle(job, 1)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert json.loads((job.checkpoint / "experiment.json").read_text())["step"] == 1


@KINDS
def test_kill_9_in_the_middle_costs_only_time(make, step: int, kept: str, tmp_path: Path) -> None:
    job, undisturbed = both(make, tmp_path)
    process = caught_in_the_middle(job, step)
    process.kill()
    process.communicate()
    again = job.next_attempt(**QUICK)
    assert (process.returncode, again.run()) == (-signal.SIGKILL, 0)
    assert again.made == undisturbed.made


def test_a_refused_job_exits_2_with_one_clear_line(tmp_path: Path) -> None:
    code, _, err = finished(merge_job(tmp_path, {"t": 7}))
    assert (code, err.splitlines()) == (
        2,
        ["refused (config): t must be a number from 0 (the first model) to 1 (the second), not 7"],
    )


def test_an_unknown_kind_exits_1_and_names_the_known_ones(tmp_path: Path) -> None:
    job = merge_job(tmp_path)
    document = {**json.loads((tmp_path / "job.json").read_text()), "kind": "juggle"}
    (tmp_path / "job.json").write_text(json.dumps(document))
    code, _, err = finished(job)
    assert (code, err) == (1, "there is no program for jobs of kind 'juggle'; one of merge, evolve, evaluate, infer\n")
