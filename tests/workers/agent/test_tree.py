"""Which files of a job's directory are taken: links that stay inside it, and all that is refused by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workers.agent import tree
from workers.agent.checkpoint_files import chosen, declared_files, held_still
from workers.agent.transfer import TransferFailed
from workers.agent.tree import files_below


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A job's directory with a checkpoint in it, and a secret beside it."""
    (tmp_path / "secret").write_text("another's")
    directory = tmp_path / "checkpoint"
    (directory / "step-7").mkdir(parents=True)
    (directory / "step-7" / "s.json").write_text("saved")
    return directory


@pytest.mark.parametrize(
    "target", ["s.json", "../step-7/s.json", "./../step-7/./s.json", "{root}/step-7/s.json", "other"]
)
def test_a_link_to_a_file_inside_is_that_file(root: Path, target: str) -> None:
    (root / "step-7" / "other").symlink_to("s.json")
    (root / "step-7" / "latest").symlink_to(target.format(root=root))
    assert files_below(root, "step-7")["latest"] == "step-7/s.json"


def test_a_link_to_a_directory_inside_is_that_directory(root: Path) -> None:
    (root / "latest").symlink_to("step-7")
    assert files_below(root) == {"latest/s.json": "step-7/s.json", "step-7/s.json": "step-7/s.json"}


def test_a_declared_link_is_what_it_leads_to(root: Path) -> None:
    (root / "latest").symlink_to("step-7")
    assert declared_files(root, "latest") == {"latest/s.json": "step-7/s.json"}
    (root / "last.json").symlink_to("latest/s.json")
    assert declared_files(root, "last.json") == {"last.json": "step-7/s.json"}


def test_what_is_held_still_of_a_link_is_the_bytes_it_leads_to(root: Path, tmp_path: Path) -> None:
    (root / "step-7" / "latest").symlink_to("s.json")
    held = held_still(root, declared_files(root, "step-7"), tmp_path / "still")
    assert held["step-7/latest"].read_text() == "saved"
    assert not held["step-7/latest"].is_symlink()


@pytest.mark.parametrize(
    "target", ["../../secret", "{root}/../secret", "/etc/passwd", "../../checkpoint-2/s", "{root}x/s", "/", "../.."]
)
def test_a_link_that_leads_out_is_refused(root: Path, target: str) -> None:
    (root / "step-7" / "latest").symlink_to(target.format(root=root))
    with pytest.raises(
        TransferFailed, match=r"^'step-7/latest' is a symbolic link that leads out .* write the file itself"
    ):
        files_below(root, "step-7")


def test_a_link_by_way_of_another_that_leads_out_is_refused(root: Path) -> None:
    (root / "way").symlink_to("..")
    (root / "step-7" / "latest").symlink_to("../way/secret")
    with pytest.raises(TransferFailed, match="'step-7/latest' is a symbolic link that leads out"):
        files_below(root, "step-7")


@pytest.mark.parametrize("target", ["gone.json", "s.json/below", "../step-8/s.json"])
def test_a_link_to_nothing_is_refused(root: Path, target: str) -> None:
    (root / "step-7" / "latest").symlink_to(target)
    with pytest.raises(TransferFailed, match="'step-7/latest' is a symbolic link to nothing; remove it"):
        files_below(root, "step-7")


@pytest.mark.parametrize(
    ("target", "words"), [("latest", "in a circle"), (".", "that it lies in"), ("../step-7", "that it lies in")]
)
def test_a_link_that_leads_back_is_refused(root: Path, target: str, words: str) -> None:
    (root / "step-7" / "latest").symlink_to(target)
    with pytest.raises(TransferFailed, match=f"'step-7/latest' is a symbolic link .*{words}"):
        files_below(root, "step-7")


def test_directories_that_link_to_each_other_are_refused(root: Path) -> None:
    (root / "step-8").mkdir()
    (root / "step-8" / "before").symlink_to("../step-7")
    (root / "step-7" / "after").symlink_to("../step-8")
    with pytest.raises(TransferFailed, match="is a symbolic link to a directory that it lies in"):
        files_below(root, "step-7")


def test_links_that_multiply_what_there_is_are_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "MAX_ENTRIES", 200)
    for n in range(7):
        (root / f"step-{n}").mkdir(exist_ok=True)
        for name in "ab":
            (root / f"step-{n}" / name).symlink_to(f"../step-{n + 1}")
    with pytest.raises(TransferFailed, match="more than 200 files and directories; write fewer"):
        files_below(root, "step-0")


def test_a_directory_in_whose_place_a_link_was_put_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").symlink_to(root)
    with pytest.raises(TransferFailed, match="'elsewhere' is a symbolic link"):
        files_below(tmp_path / "elsewhere")


def test_a_directory_put_elsewhere_after_the_look_is_not_followed(root: Path, tmp_path: Path) -> None:
    files = declared_files(root, "step-7")
    (root / "step-7").rename(tmp_path / "moved")
    (root / "step-7").symlink_to(tmp_path / "moved")
    with pytest.raises(TransferFailed, match="changed while it was read"):
        held_still(root, files, tmp_path / "still")


def test_what_is_no_file_is_refused_unopened(root: Path) -> None:
    os.mkfifo(root / "step-7" / "pipe")
    with pytest.raises(TransferFailed, match="'step-7/pipe' is neither a file nor a directory"):
        files_below(root, "step-7")


@pytest.mark.parametrize("make", ["file", "directory"])
def test_a_name_that_is_not_utf8_is_refused_and_shown(root: Path, make: str) -> None:
    name = os.fsencode(root / "step-7") + b"/na\xffme"
    if make == "directory":
        os.mkdir(name)  # noqa: PTH102 - a Path has no bytes
        name += b"/w"
    os.close(os.open(name, os.O_CREAT))
    with pytest.raises(TransferFailed, match=r"the file name 'step-7/na\\xffme(/w)?' is not UTF-8; rename it"):
        files_below(root, "step-7")


@pytest.mark.parametrize("what", ["s.json", "."])
def test_what_can_not_be_read_is_refused_by_name(root: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    place, real_open, real_scan = root / "step-7" / what, os.open, os.scandir

    def refuse(path: object, *_: object) -> None:
        if str(path) == str(place):
            raise PermissionError(13, "Permission denied", str(path))

    def opened(path: str, *more: int) -> int:
        refuse(path)
        return real_open(path, *more)

    def scanned(path: str) -> object:
        refuse(path)
        return real_scan(path)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "scandir", scanned)
    with pytest.raises(TransferFailed, match=r"can't be read \(Permission denied\); make it readable") as said:
        files_below(root, "step-7")
    assert f"'{place.relative_to(root)}'" in str(said.value)


def test_a_place_that_is_not_there_is_said_to_be_gone(root: Path) -> None:
    with pytest.raises(TransferFailed, match="there is no 'step-8'; what is announced must be there") as said:
        declared_files(root, "step-8")
    assert said.value.gone


def test_after_an_end_what_was_declared_and_removed_is_no_checkpoint(root: Path) -> None:
    assert chosen(root, kind="command", clean=False, declared="step-8") == {}
