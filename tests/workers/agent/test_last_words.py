"""The last line that a job wrote, for the error of one that failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.agent.last_words import READ_BYTES, last_words


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (b"one\nModuleNotFoundError: No module named 'x'\n", "ModuleNotFoundError: No module named 'x'"),
        (b"one\ntwo", "two"),
        (b"ValueError: x\n\n  \n", "ValueError: x"),
        (b"RuntimeError: y\n" + b"=" * 60 + b"\n", "RuntimeError: y"),
        (b"10%\r20%\rkilled", "killed"),
        (b"\x1b[31mred\x1b[0m \x1b]0;title\x07alert\n", "red alert"),
        (b"caf\xe9 \x00 end\n", "caf\N{REPLACEMENT CHARACTER} \N{REPLACEMENT CHARACTER} end"),
        (b"x" * READ_BYTES + b"\nthe end\n", "the end"),
        (b"", ""),
    ],
)
def test_it_is_the_last_line_that_says_something(tmp_path: Path, log: bytes, words: str) -> None:
    path = tmp_path / "stdout"
    path.write_bytes(log)
    assert last_words(path) == words


def test_without_a_log_there_is_none(tmp_path: Path) -> None:
    assert last_words(tmp_path / "stdout") == ""
