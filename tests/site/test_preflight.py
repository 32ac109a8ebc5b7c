"""Each obstacle to a start is one clear line that says what to do."""

from __future__ import annotations

import errno
import shutil
import socket
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from emep_site.embedded import preflight
from emep_site.embedded.preflight import Obstacle


def test_an_old_python_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    with pytest.raises(Obstacle, match=r"Python 3\.11 to 3\.13 is needed, .* run make with PYTHON="):
        preflight.python()


def test_a_port_in_use_is_named():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        number = other.getsockname()[1]
        with pytest.raises(Obstacle, match=f"port {number} on 127.0.0.1 is in use: choose another one with EMEP_PORT"):
            preflight.port("127.0.0.1", number)


@pytest.mark.parametrize("number", [0, -1, 65536])
def test_an_impossible_port_is_refused(number):
    with pytest.raises(Obstacle, match="EMEP_PORT must be 1 to 65535"):
        preflight.port("127.0.0.1", number)


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9 - 1, 1))
    with pytest.raises(
        Obstacle, match=r"0 MB are free .* at least 500 MB are needed: free some space or .* EMEP_DATA_DIR"
    ):
        preflight.data_dir(tmp_path / "d")


def test_a_write_that_finds_no_space_is_named(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(Obstacle, match="there is no space left"):
        preflight.data_dir(tmp_path / "d")


def test_a_directory_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "f").write_text("")
    with pytest.raises(Obstacle, match="choose another directory with EMEP_DATA_DIR"):
        preflight.data_dir(tmp_path / "f")


def test_a_second_start_on_one_directory_is_refused(tmp_path):
    with preflight.only_one(tmp_path / "up.lock"), pytest.raises(Obstacle, match="EMEP already runs on"):
        preflight.only_one(tmp_path / "up.lock")


def test_a_directory_that_was_there_keeps_its_mode(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    preflight.data_dir(shared)
    assert shared.stat().st_mode & 0o7777 == 0o1777


def test_a_directory_that_is_made_is_private(tmp_path):
    preflight.data_dir(tmp_path / "mine")
    assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o700
