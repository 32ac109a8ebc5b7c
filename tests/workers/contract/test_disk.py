"""What a job takes of the disk, and a log whose middle takes nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from workers.agent.checkpoint_files import held_still
from workers.agent.disk import allocated, keep_ends
from workers.agent.tail import LogTail
from workers.agent.transfer import TransferFailed

MIB = 2**20


def test_a_directory_takes_what_its_files_take_together(tmp_path: Path) -> None:
    before = allocated(tmp_path)
    for name in ("a", "deep/er/b"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * MIB)
    assert 2 * MIB <= allocated(tmp_path) - before < 2.1 * MIB


def test_holes_and_links_out_of_it_take_nothing(tmp_path: Path) -> None:
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(100 * MIB)
    (tmp_path / "out").symlink_to("/")
    assert allocated(tmp_path) < MIB


def test_the_ends_of_a_log_are_kept_and_its_middle_is_given_back(tmp_path: Path) -> None:
    log = tmp_path / "stdout"
    log.write_bytes(b"H" * MIB + b"m" * 6 * MIB + b"T" * MIB)
    assert keep_ends(log, head=MIB, tail=MIB) == 6 * MIB
    assert (log.stat().st_size, allocated(log)) == (8 * MIB, 2 * MIB)
    tail = LogTail(log, MIB)
    tail.acknowledge(0)
    assert tail.chunk(final=True) == (0, "H" * 128 * 1024)


def test_giving_back_again_gives_only_what_came_since(tmp_path: Path) -> None:
    log = tmp_path / "stdout"
    log.write_bytes(b"x" * 4 * MIB)
    keep_ends(log, head=MIB, tail=MIB)
    assert keep_ends(log, head=MIB, tail=MIB) == 0


def test_a_short_log_stays_as_it_is(tmp_path: Path) -> None:
    log = tmp_path / "stdout"
    log.write_bytes(b"x" * 2 * MIB)
    assert keep_ends(log, head=MIB, tail=MIB) == 0
    assert keep_ends(tmp_path / "none", head=1, tail=1) == 0


def test_files_held_still_stay_when_the_job_replaces_or_removes_its_own(tmp_path: Path) -> None:
    (tmp_path / "c" / "step-1").mkdir(parents=True)
    (tmp_path / "c" / "step-1" / "w").write_text("old")
    held = held_still(tmp_path / "c", {"step-1/w": "step-1/w"}, tmp_path / "still")
    (tmp_path / "c" / "step-1" / "w").unlink()
    assert held["step-1/w"].read_text() == "old"


def test_a_checkpoint_that_is_gone_when_it_is_looked_for_is_said_to_have_changed(tmp_path: Path) -> None:
    with pytest.raises(TransferFailed, match="changed while it was read"):
        held_still(tmp_path, {"step-1/w": "step-1/w"}, tmp_path / "still")


@pytest.mark.parametrize("linkable", [True, False])
@pytest.mark.parametrize("place", ["w", "deep/w"])
def test_a_link_that_a_running_job_puts_in_a_files_place_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, linkable: bool
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "w").write_text("another user's")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / place.split("/")[0]).symlink_to(tmp_path / "secret" / ("w" if place == "w" else ""))
    if not linkable:
        monkeypatch.setattr(os, "link", _no_links)
    if place != "w" and os.geteuid() != 0:
        pytest.skip("only root can make a file that is another user's")
    if place != "w":
        os.chown(tmp_path / "secret" / "w", 65534, 65534)
    with pytest.raises(TransferFailed, match=r"no regular file of the job's own|changed while"):
        held_still(tmp_path / "c", {place: place}, tmp_path / "still")


def test_where_links_do_not_reach_the_files_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "w").write_text("bytes")
    monkeypatch.setattr(os, "link", _no_links)
    held = held_still(tmp_path / "c", {"w": "w"}, tmp_path / "still")
    assert held["w"].read_text() == "bytes"


def _no_links(*_: object, **__: object) -> None:
    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
