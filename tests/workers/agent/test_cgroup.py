"""Control groups of jobs, on a double of the kernel's directories."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.workers.agent.kernel import groups, make
from workers.agent import cgroup
from workers.agent.cgroup import UNNAMED, CgroupError, Cgroups, open_cgroups, own_directory

MIB = 2**20
HYBRID = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" + (
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)
PURE = "29 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
PART = "29 22 0:26 /machine/a\\040b /mnt/c\\040g rw - cgroup2 cgroup2 rw\n"


def found(tmp_path: Path, own: str, mounts: str) -> str:
    (tmp_path / "own").write_text(f"4:memory:/elsewhere\n{own}")
    (tmp_path / "mounts").write_text(mounts)
    return str(own_directory(tmp_path / "own", tmp_path / "mounts"))


@pytest.mark.parametrize(
    ("own", "mounts", "where"),
    [
        ("0::/\n", HYBRID, "/sys/fs/cgroup/unified"),
        ("0::/system.slice/emep.service\n", PURE, "/sys/fs/cgroup/system.slice/emep.service"),
        ("0::/machine/a b/job\n", PART, "/mnt/c g/job"),
    ],
)
def test_the_own_group_is_found_on_hosts_of_every_kind(tmp_path: Path, own: str, mounts: str, where: str) -> None:
    assert found(tmp_path, own, mounts) == where


@pytest.mark.parametrize(
    ("own", "mounts", "words"),
    [
        ("", PURE, "no control groups of version 2"),
        ("0::/\n", "", "no cgroup2 file system that shows / is mounted"),
        ("0::/machine/other\n", PART, "no cgroup2 file system that shows /machine/other"),
        ("0::/../up\n", PURE, "no cgroup2 file system that shows /../up"),
    ],
)
def test_where_there_is_no_group_it_is_said_why(tmp_path: Path, own: str, mounts: str, words: str) -> None:
    with pytest.raises(CgroupError, match=words):
        found(tmp_path, own, mounts)


def test_off_means_none(tmp_path: Path) -> None:
    assert open_cgroups("off", tmp_path) is None


def test_a_given_directory_that_is_no_cgroup_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(CgroupError, match=f"{tmp_path} is no cgroup version 2 directory"):
        open_cgroups(str(tmp_path), tmp_path)


def test_a_group_that_processes_can_enter_passes_and_leaves_nothing(tmp_path: Path) -> None:
    all_groups = groups(tmp_path)
    all_groups.try_out()
    assert [p for p in all_groups.parent.iterdir() if p.is_dir()] == []


def test_a_directory_in_which_none_can_be_made_is_named(tmp_path: Path) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    double = groups(tmp_path)
    with pytest.raises(CgroupError, match=f"no cgroup can be made in {double.parent}: Permission denied"):
        Cgroups(double.parent, tmp_path / "state", make=refuse).try_out()


def test_a_group_that_nobody_can_enter_is_no_use(tmp_path: Path) -> None:
    double = groups(tmp_path)
    with pytest.raises(CgroupError, match="no process can be moved into a cgroup below"):
        Cgroups(double.parent, tmp_path / "state", remove=os.rmdir).try_out()  # a plain directory: no cgroup.procs


def test_a_jobs_group_is_named_for_it_and_its_state_directory(tmp_path: Path) -> None:
    double = groups(tmp_path)
    (tmp_path / "other").mkdir()
    neighbour = Cgroups(double.parent, tmp_path / "other", make=make)
    neighbour.create("b-1")
    double.create("a-1")
    assert (list(double.left()), list(neighbour.left())) == (["a-1"], ["b-1"])


def test_what_is_in_it_counts_with_what_the_job_made_below_it(tmp_path: Path) -> None:
    group = groups(tmp_path).create("a-1")
    group.procs.write_text("11\n12\n")
    make(group.path / "below")
    (group.path / "below" / "cgroup.procs").write_text("13\n")
    assert group.pids() == {11, 12, 13}


def test_a_list_that_cannot_be_read_is_not_empty(tmp_path: Path) -> None:
    group = groups(tmp_path).create("a-1")
    group.procs.unlink()
    group.procs.mkdir()
    assert group.pids() == {UNNAMED}


def test_a_group_that_is_gone_is_empty(tmp_path: Path) -> None:
    assert groups(tmp_path).of("a-1").pids() == set()


def test_one_write_kills_all(tmp_path: Path) -> None:
    group = groups(tmp_path).create("a-1")
    group.kill()
    assert (group.path / "cgroup.kill").read_text() == "1"


def test_an_old_kernel_without_that_file_gets_none(tmp_path: Path) -> None:
    group = groups(tmp_path).create("a-1")
    (group.path / "cgroup.kill").unlink()
    group.kill()
    assert not (group.path / "cgroup.kill").exists()


@pytest.mark.parametrize(("inside", "gone"), [("", True), ("77\n", False)])
def test_a_group_is_removed_when_it_is_empty(tmp_path: Path, inside: str, gone: bool) -> None:
    group = groups(tmp_path).create("a-1")
    group.procs.write_text(inside)
    assert (group.remove(), group.path.exists()) == (gone, not gone)


def test_a_memory_limit_is_for_all_of_it_without_swap(tmp_path: Path) -> None:
    double = groups(tmp_path)
    group = double.create("a-1", memory_bytes=512 * MIB)
    limits = [(group.path / name).read_text() for name in ("memory.max", "memory.swap.max", "memory.oom.group")]
    assert (limits, (double.parent / "cgroup.subtree_control").read_text()) == (["536870912", "0", "1"], "+memory")


def test_a_kernel_without_swap_accounts_still_limits(tmp_path: Path) -> None:
    group = groups(tmp_path).create("a-1")
    (group.path / "memory.swap.max").unlink()
    group.limit_memory(512 * MIB)
    assert (group.path / "memory.max").read_text() == "536870912"


def test_without_the_controller_a_limit_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    double = groups(tmp_path)
    (double.parent / "cgroup.controllers").write_text("cpu")
    with pytest.raises(CgroupError, match=r"the memory controller is not to be had .* Delegate=memory"):
        double.create("a-1", memory_bytes=512 * MIB)
    assert double.left() == {}


def test_processes_beside_the_groups_forbid_a_limit_and_the_way_out_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    double = groups(tmp_path)
    monkeypatch.setattr(cgroup, "_write", busy)
    with pytest.raises(CgroupError, match=f"processes are in {double.parent} itself, "):
        double.give_memory()


@pytest.mark.parametrize(("events", "starved"), [("max 9\noom 1\noom_kill 2\n", True), ("oom_kill 0\n", False)])
def test_a_kill_for_its_limit_is_on_record(tmp_path: Path, events: str, starved: bool) -> None:
    group = groups(tmp_path).create("a-1")
    (group.path / "memory.events").write_text(events)
    assert group.ran_out_of_memory() is starved
