"""A run that dies at any write, rename, link or removal goes on to the bytes of one that was left alone."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workers.engines import results as storing
from workers.engines.results import Results

COUNT, BATCH = 12, 4


class Dead(BaseException):
    """The process is gone: nothing cleans up after it."""


def dying(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """The operation number ``at`` on the disk is the last: it is done by half, or not at all."""
    done = itertools.count()

    def fatal(work: Callable[..., Any], half: Callable[..., Any] = lambda *a, **k: None) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if next(done) == at:
                half(*args, **kwargs)
                raise Dead
            return work(*args, **kwargs)

        return wrapped

    def one_file_less(path: Path, **_: Any) -> None:
        for first in sorted(path.iterdir())[:1] if path.exists() else []:
            first.unlink()

    def half_a_file(path: Path, content: bytes) -> None:
        path.write_bytes(content[: len(content) // 2])

    monkeypatch.setattr(storing, "write_file", fatal(storing.write_file, half_a_file))
    monkeypatch.setattr(storing, "_link", fatal(storing._link))
    monkeypatch.setattr(storing, "sync_directory", fatal(storing.sync_directory))
    monkeypatch.setattr(storing.shutil, "rmtree", fatal(shutil.rmtree, one_file_less))
    monkeypatch.setattr(Path, "replace", fatal(Path.replace))


def ran(directory: Path) -> bytes:
    """All rows after a run that saves after every batch, as they would be published."""
    results = Results(directory, "plan")
    results.restore()
    while len(results) < COUNT:
        results.append({"index": index, "nll": index / 8} for index in range(len(results), len(results) + BATCH))
        results.save()
    return b"".join(results.lines())


def test_wherever_it_dies_the_next_run_has_the_undisturbed_rows(tmp_path: Path) -> None:
    undisturbed = ran(tmp_path / "undisturbed")
    for at in itertools.count():
        place = tmp_path / str(at)
        with pytest.MonkeyPatch.context() as patch:
            dying(patch, at)
            try:
                ran(place)
            except Dead:
                died = True
            else:
                died = False
        assert ran(place) == undisturbed, at
        if not died:
            break
    assert at > 15


def test_one_that_dies_again_and_again_gets_on(tmp_path: Path) -> None:
    undisturbed = ran(tmp_path / "undisturbed")
    deaths = 0
    while True:
        with pytest.MonkeyPatch.context() as patch:
            dying(patch, 12)
            try:
                found = ran(tmp_path / "place")
            except Dead:
                deaths += 1
                assert deaths < 10
            else:
                break
    assert (found, deaths > 1) == (undisturbed, True)
