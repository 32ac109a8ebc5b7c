"""When a job takes itself to be asked to stop."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from pathlib import Path

from workers import emep_job
from workers.emep_job import StopRequest


def test_nobody_asked_yet(tmp_path: Path) -> None:
    assert not StopRequest(tmp_path / "preempt", 10).requested()


def test_the_file_asks(tmp_path: Path) -> None:
    (tmp_path / "preempt").touch()
    assert StopRequest(tmp_path / "preempt", 10).requested()


def test_a_request_stays_when_its_file_goes(tmp_path: Path) -> None:
    stop = StopRequest(tmp_path / "preempt", 10)
    (tmp_path / "preempt").touch()
    stop.requested()
    (tmp_path / "preempt").unlink()
    assert stop.requested()


def test_sigterm_wakes_a_wait_that_looks_for_nothing_else(monkeypatch) -> None:
    monkeypatch.setattr(emep_job, "_LOOK_S", 60)
    before = signal.getsignal(signal.SIGTERM)
    stop = StopRequest(None, 10)
    stop.install()
    try:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
        begun = time.monotonic()
        assert stop.wait(60) is True
        assert time.monotonic() - begun < 30
    finally:
        signal.signal(signal.SIGTERM, before)


def test_the_file_ends_a_long_wait(tmp_path: Path) -> None:
    threading.Timer(0.05, (tmp_path / "preempt").touch).start()
    assert StopRequest(tmp_path / "preempt", 10).wait(60) is True


def test_a_wait_that_nobody_ends_returns_false() -> None:
    assert StopRequest(None, 10).wait(0.01) is False


def test_it_waits_in_a_program_that_has_a_thousand_files_open() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    opened = [os.open(os.devnull, os.O_RDONLY)]
    try:
        while opened[-1] < 1100:
            opened.append(os.dup(opened[0]))
        assert StopRequest(None, 10).wait(0.01) is False
    finally:
        for each in opened:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_one_that_is_forgotten_keeps_no_file_open() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        StopRequest(None, 10)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_with_half_of_the_grace_gone_it_is_overdue(tmp_path: Path, monkeypatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    (tmp_path / "preempt").touch()
    stop = StopRequest(tmp_path / "preempt", 10)
    early = stop.overdue()
    now[0] = 105.1
    assert (early, stop.overdue()) == (False, True)
