"""Agents and jobs are other programs: these tests need no Django, so the fixture for every test does nothing here."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def artifact_dir() -> None:
    """Stands in for the fixture of the same name that needs Django's settings."""


@pytest.fixture(autouse=True)
def never_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this process is flushed to the disk: no test here loses power, and what is killed leaves its writes.

    A step that kills still counts each flush: it is put around what is here.
    """
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda _: None)
