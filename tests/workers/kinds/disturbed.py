"""Jobs that are stopped, killed or shared out to devices anywhere: what they leave is that of an undisturbed run."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.workers.engines.builders import sha256
from tests.workers.engines.dying import run_and_die
from tests.workers.kinds.builders import Job
from tests.workers.kinds.test_merge_job import asked_after
from workers.engines.merging import CPU
from workers.kinds import by_batches

Made = Callable[[Path], Job]


def on_devices(monkeypatch: Any, count: int) -> None:
    """The job has so many devices; the CPU stands in for each."""
    monkeypatch.setattr(by_batches, "prepare_devices", lambda gpus: ([CPU] * count, f"computing on {count} devices"))


def codes_of_merge_stopped_after_each_tensor_and_killed_at_each_step(made: Made, place: Path) -> list[int]:
    """The exit codes of a merge that is asked to leave after each of its tensors. It, and one that dies at each of its
    steps towards the disk, comes to the bytes of an undisturbed one."""
    undisturbed = made(place / "undisturbed")
    undisturbed.run()
    expected = sha256(undisturbed.merged / "model.safetensors")
    job = made(place / "preempted")
    codes = [job.run(asked_after(1))]
    while codes[-1] == 85:
        job = job.next_attempt()
        codes.append(job.run(asked_after(1)))
    assert sha256(job.merged / "model.safetensors") == expected
    step, died = 0, True
    while died:
        step += 1
        job = made(place / f"{step}")
        died = run_and_die(job.run, step)
        if died:
            job = job.next_attempt()
            assert job.run() == 0
        assert sha256(job.merged / "model.safetensors") == expected
    assert step > 10
    return codes


def stopped_after_every_batch_leaves_the_same(made: Made, place: Path, monkeypatch: Any) -> None:
    """A job that is asked to leave after each batch, on 1, 2 and 4 devices in turn, leaves what an undisturbed one
    does."""
    devices = itertools.cycle([1, 2, 4])
    (place / "a").mkdir()
    (place / "b").mkdir()
    undisturbed = made(place / "b")
    assert undisturbed.run() == 0
    job = made(place / "a")
    codes: list[int] = []
    while not codes or codes[-1] == 85:
        on_devices(monkeypatch, next(devices))
        codes.append(job.run(asked_after(1)))
        job = job.next_attempt() if codes[-1] == 85 else job
    assert (len(codes) > 3, codes[-1], job.made) == (True, 0, undisturbed.made)


def several_devices_leave_the_same(made: Made, place: Path, devices: int, monkeypatch: Any) -> None:
    """A job on so many devices leaves what it does on one."""
    (place / "a").mkdir()
    (place / "b").mkdir()
    one = made(place / "a")
    one.run()
    on_devices(monkeypatch, devices)
    several = made(place / "b")
    assert several.run() == 0
    assert several.made == one.made
