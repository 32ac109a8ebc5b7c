"""A merge that has too little memory says so before it reads data."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.workers.kinds.builders import merge_job
from workers.kinds import merge
from workers.kinds.memory import fitting, room


def groups(place: Path, **limits: tuple[str, int]) -> tuple[Path, Path]:
    """The files of the kernel for a process in group a/b: the limit and the anonymous bytes of each that has one."""
    own, root = place / "own", place / "root"
    own.write_text("1:name=systemd:/x\n0::/a/b\n")
    (root / "a" / "b").mkdir(parents=True)
    for name, (limit, anon) in limits.items():
        group = {"top": root, "a": root / "a", "b": root / "a" / "b"}[name]
        (group / "memory.max").write_text(f"{limit}\n")
        (group / "memory.stat").write_text(f"anon {anon}\nfile 999999\n")
    return own, root


@pytest.mark.parametrize(
    ("limits", "free"),
    [
        ({}, None), ({"b": ("max", 5)}, None), ({"b": ("100", 30)}, 70), ({"b": ("max", 5), "a": ("100", 60)}, 40),
        ({"b": ("100", 30), "a": ("100", 60), "top": ("1000", 999)}, 1), ({"b": ("100", 130)}, 0),
        ({"b": ("odd", 1)}, None),
    ],
)  # fmt: skip
def test_the_tightest_limit_above_a_process_counts(limits, free, tmp_path: Path) -> None:
    assert room(*groups(tmp_path, **limits)) == free


def test_where_the_kernel_has_no_such_groups_nothing_is_known(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("4:memory:/x\n")
    assert (room(tmp_path / "old", tmp_path), room(tmp_path / "none", tmp_path)) == (None, None)


@pytest.mark.parametrize(("free", "count"), [(None, 4), (400, 4), (399, 3), (100, 1), (99, 0)])
def test_so_many_workers_as_there_is_room_for(free: int | None, count: int) -> None:
    assert fitting(lambda workers: 100 * workers, 4, free) == count


def test_a_merge_that_has_no_room_is_refused_with_both_numbers(tmp_path: Path, monkeypatch) -> None:
    job = merge_job(tmp_path)
    monkeypatch.setattr(merge, "room", lambda: 63_359)
    assert job.run() == 2
    error = job.events[-1]
    assert (error["code"], error["details"]) == ("no_memory", {"needed": 63_360, "free": 63_359})
    assert not (job.checkpoint / "framework").exists()


def test_it_is_told_together_with_a_disk_that_is_full(tmp_path: Path, monkeypatch) -> None:
    job = merge_job(tmp_path)
    monkeypatch.setattr(merge, "room", lambda: 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**6, 10**6, 100))
    job.run()
    assert [p["code"] for p in job.events[-1]["details"]["problems"]] == ["no_space", "no_memory"]
