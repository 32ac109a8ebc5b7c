"""A merge job with several GPUs: shared out by size, the same files as with one, also when it goes on with others."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.workers.engines.builders import sha256
from tests.workers.engines.recipes import RECIPES
from tests.workers.kinds.builders import BASE, Job, merge_job
from tests.workers.kinds.test_merge_job import asked_after
from tests.workers.kinds.test_recipe_job import meta
from workers.engines.merging import CPU
from workers.kinds import devices as device_rules
from workers.kinds import merge
from workers.kinds.devices import of_one_kind, sharing


def seeded(directory: Path, gpus: int) -> Job:
    """A merge that draws its masks, on so many GPUs."""
    directory.mkdir()
    params = {"strategy": "dare_ties", **RECIPES["dare_ties"], "base_model": BASE}
    return merge_job(directory, params, EMEP_GPU_COUNT=str(gpus))


def files(job: Job) -> dict[str, str]:
    return {path.name: sha256(path) for path in job.merged.iterdir()}


@pytest.mark.parametrize("gpus", [0, 2, 4])
def test_the_files_and_their_lineage_are_those_of_one(gpus: int, tmp_path: Path, capsys) -> None:
    one, several = seeded(tmp_path / "one", 1), seeded(tmp_path / "several", gpus)
    assert (one.run(), several.run()) == (0, 0)
    assert (files(several), meta(several)) == (files(one), meta(one))
    shared = f"merge: shared out to {gpus} devices by size: "
    assert (shared in capsys.readouterr().out) is (gpus > 1)


def test_the_plan_tells_how_much_each_computes_and_the_memory_of_all(tmp_path: Path, capsys) -> None:
    seeded(tmp_path / "one", 1).run()
    alone = int(capsys.readouterr().out.partition("at most ")[2].split()[0])
    seeded(tmp_path / "three", 3).run()
    told = capsys.readouterr().out
    assert int(told.partition("at most ")[2].split()[0]) == 3 * alone
    assert "merge: shared out to 3 devices by size: 5280, 1028, 656 bytes" in told


@pytest.mark.parametrize("counts", [(4, 1, 2), (1, 2, 4), (2, 4, 1)], ids=str)
def test_preempted_and_continued_with_another_number_of_gpus(counts: tuple[int, ...], tmp_path: Path, capsys) -> None:
    one = seeded(tmp_path / "one", 1)
    one.run()
    job = seeded(tmp_path / "job", counts[0])
    codes = [job.run(asked_after(2))]
    for gpus in counts[1:]:
        job = job.next_attempt(EMEP_GPU_COUNT=str(gpus))
        codes.append(job.run(asked_after(2) if gpus != counts[-1] else None))
    assert (codes, files(job)) == ([85, 85, 0], files(one))
    assert "resume: 4 of 6 tensors verified and kept" in capsys.readouterr().out


def test_each_step_is_told_once_and_the_last_one_ends_it(tmp_path: Path) -> None:
    job = seeded(tmp_path / "job", 4)
    job.run()
    steps = [event["step"] for event in job.events if event["type"] == "progress"]
    assert (steps == sorted(set(steps)), steps[-1]) == (True, 6)


def test_with_room_for_some_of_its_devices_it_computes_on_those(tmp_path: Path, monkeypatch, capsys) -> None:
    one, job = seeded(tmp_path / "one", 1), seeded(tmp_path / "job", 4)
    one.run()
    needed = int(capsys.readouterr().out.partition("at most ")[2].split()[0])
    monkeypatch.setattr(merge, "room", lambda: 2 * needed)
    assert job.run() == 0
    told = capsys.readouterr().out
    assert "memory for 2 of 4 devices: the others are not used" in told
    assert "merge: shared out to 2 devices" in told
    assert files(job) == files(one)


def test_of_gpus_of_several_kinds_only_the_most_frequent_compute(monkeypatch) -> None:
    cuda = [torch.device("cuda", i) for i in range(5)]
    names = dict(zip(cuda, ("T4", "L4", "T4", "L4", "A2"), strict=True))
    monkeypatch.setattr(device_rules, "device_class", lambda device: names[device])
    assert of_one_kind(cuda) == [cuda[0], cuda[2]]
    assert of_one_kind(cuda[1:4]) == [cuda[1], cuda[3]]
    assert sharing(cuda, 5) == [cuda[0], cuda[2]]


@pytest.mark.parametrize(("gpus", "workers"), [(0, 1), (1, 1), (3, 3)])
def test_without_cuda_the_cpu_stands_for_each_gpu(gpus: int, workers: int) -> None:
    assert sharing([CPU], gpus) == [CPU] * workers
