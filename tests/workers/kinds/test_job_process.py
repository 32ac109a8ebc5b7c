"""The job as the agent sees it: a process, its signals, its exit code."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

from tests.workers.engines.builders import sha256
from tests.workers.kinds.builders import Job, merge_job

SLOW = {"EMEP_MERGE_THROTTLE_S": "60"}


def caught_in_the_middle(job: Job) -> subprocess.Popen[str]:
    """The running process, after its first tensor, while it waits for the throttle."""
    process = job.start()
    for line in process.stdout:
        if line.startswith("merge 1/"):
            return process
    raise AssertionError(f"it never merged a tensor: {process.stderr.read()}")


def finished(job: Job) -> tuple[int, str, str]:
    process = job.start()
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_sigterm_in_the_middle_saves_exits_85_and_the_next_attempt_writes_the_undisturbed_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    undisturbed = merge_job(tmp_path / "b")
    undisturbed.run()
    job = merge_job(tmp_path / "a", **SLOW, EMEP_GPU_COUNT="1")
    process = caught_in_the_middle(job)
    asked = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert (process.wait(timeout=30), time.monotonic() - asked < 30) == (85, True)
    process.communicate()
    assert [e["type"] for e in job.events] == ["progress", "checkpoint"]
    assert json.loads((job.checkpoint / "experiment.json").read_text())["step"] == 1
    again = job.next_attempt(EMEP_MERGE_THROTTLE_S="0")
    code, out, err = finished(again)
    assert (code, err, "resume: 1 of 6 tensors" in out) == (0, "", True)
    assert sha256(again.merged / "model.safetensors") == sha256(undisturbed.merged / "model.safetensors")


def test_kill_9_in_the_middle_costs_only_time(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    undisturbed = merge_job(tmp_path / "b")
    undisturbed.run()
    job = merge_job(tmp_path / "a", **SLOW)
    process = caught_in_the_middle(job)
    process.kill()
    process.communicate()
    again = job.next_attempt(EMEP_MERGE_THROTTLE_S="0")
    assert (process.returncode, again.run()) == (-signal.SIGKILL, 0)
    assert sha256(again.merged / "model.safetensors") == sha256(undisturbed.merged / "model.safetensors")


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
    assert (code, err) == (1, "there is no program for jobs of kind 'juggle'; one of merge\n")
