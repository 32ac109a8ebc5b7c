"""Real processes tell the truth about themselves: their end or their death, and whom they met on a GPU."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.checker.check import check
from tests.checker.evidence import Evidence, House, told
from tests.checker.truth import DIRECTORY, Truth, acknowledged
from tests.checker.witness import Witness

ROOT = Path(__file__).resolve().parents[2]
JOB = """
import os, sys
from tests.checker.truth import Truth
truth = Truth.of(os.environ)
truth.start()
truth.step(1)
print("begun", flush=True)
sys.stdin.read()
truth.end()
"""


def process(directory: Path, job: str, *, epoch: int = 1, gpus: str = "g0") -> subprocess.Popen:
    """A job process that has begun and holds its GPUs until its input is closed."""
    env = {**os.environ, DIRECTORY: str(directory), "EMEP_JOB_ID": job, "EMEP_EPOCH": str(epoch),
           "CUDA_VISIBLE_DEVICES": gpus, "PYTHONPATH": str(ROOT)}  # fmt: skip
    made = subprocess.Popen([sys.executable, "-S", "-c", JOB], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert made.stdout is not None
    assert made.stdout.readline() == b"begun\n"
    return made


def evidence(directory: Path) -> Evidence:
    """Only what the processes themselves have written."""
    return Evidence(House(), (), {}, told(directory))


def test_a_process_that_ends_says_so_and_one_that_is_killed_is_seen_to_die(tmp_path):
    with Witness(tmp_path):
        ends, killed = process(tmp_path, "a"), process(tmp_path, "b", gpus="g1")
        ends.communicate()
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
    lines = {(r["job"], r["event"]) for r in told(tmp_path)}
    assert {("a", "end"), ("b", "died")} <= lines
    assert ("b", "end") not in lines
    first, second = evidence(tmp_path).processes
    assert (first.job, first.gpus, first.steps, second.gpus) == ("a", ("g0",), (("step", 1),), ("g1",))
    assert first.start < first.until


def test_two_jobs_on_one_gpu_and_two_attempts_of_one_job_are_on_record(tmp_path):
    running = [process(tmp_path, "a"), process(tmp_path, "b"), process(tmp_path, "a", epoch=2, gpus="")]
    for each in running:
        each.communicate()
    collisions = {(r["job"], r["epoch"], r["on"]) for r in told(tmp_path) if r["event"] == "collision"}
    assert collisions == {("b", 1, "gpu:g0"), ("a", 2, "job:a")}
    assert {f.invariant for f in check(evidence(tmp_path))} >= {"I2", "I4"}


def test_a_gpu_is_free_for_the_next_when_its_process_was_killed(tmp_path):
    for job in ("a", "b"):
        each = process(tmp_path, job)
        each.kill()
        each.communicate()
    assert [r for r in told(tmp_path) if r["event"] == "collision"] == []


def test_outside_a_test_nothing_is_written():
    assert Truth.of({"EMEP_JOB_ID": "a", "EMEP_EPOCH": "1"}) is None


def test_a_line_that_a_dead_process_began_is_left_out(tmp_path):
    acknowledged(tmp_path, "a", key="k")
    path = next(tmp_path.glob("*.jsonl"))
    with path.open("a") as log:
        log.write('{"event": "sta')
    assert [r["job"] for r in told(tmp_path)] == ["a"]
