"""Reading what jobs write, whatever they write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from workers.agent.tail import CHUNK_BYTES, EventsTail, LogTail, clean_text, read_facts


def written(tmp_path: Path, *events: Any) -> Path:
    path = tmp_path / "events.jsonl"
    lines = [e if isinstance(e, bytes) else json.dumps(e).encode() for e in events]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def whole(log: LogTail) -> str:
    """The log as a server that acknowledges every chunk gets it."""
    text = ""
    while (chunk := log.chunk(final=True)) is not None:
        assert chunk[0] == len(text.encode())
        text += chunk[1]
        log.acknowledge(len(text.encode()))
    assert log.at_end()
    return text


PROGRESS = {"type": "progress", "step": 1, "total": 9, "unit": "step"}


# ---------------------------------------------------------------- events


def test_progress_and_metrics_become_reports(tmp_path: Path) -> None:
    metric = {"type": "metric", "step": 1, "name": "loss", "value": 0.5}
    assert EventsTail(written(tmp_path, PROGRESS, metric, {"type": "done"})).poll(0.0) == [PROGRESS, metric]


@pytest.mark.parametrize(
    "line",
    [
        b"not json", b"[1]", b'{"no": "type"}', b"\xff\xfe", b'{"type": 3}', b"x" * 5000, b"[" * 4000,
        b'{"type": "progress", "step": 1, "total": 2, "x": "' + b"y" * 4096 + b'"}',
    ],
)  # fmt: skip
def test_a_bad_line_is_counted_and_the_next_is_read(tmp_path: Path, line: bytes) -> None:
    path = written(tmp_path, line, PROGRESS)
    assert EventsTail(path).poll(0.0) == [PROGRESS]
    assert read_facts(path, stop_offset=None).bad_lines == 1


@pytest.mark.parametrize(
    "event",
    [
        {"type": "progres", "step": 1, "total": 2}, {"type": "progress", "step": "1", "total": 2}, {"type": "metric"},
        {"type": "metric", "step": 1, "name": "loss", "value": float("nan")}, {"type": "artifact", "name": "net"},
    ],
)  # fmt: skip
def test_an_event_that_has_no_effect_is_not_understood(tmp_path: Path, event: Any) -> None:
    assert read_facts(written(tmp_path, PROGRESS, event), stop_offset=None).bad_lines == 1


def test_of_what_is_understood_nothing_is_counted(tmp_path: Path) -> None:
    events = [
        PROGRESS, b"", {"type": "metric", "step": 1, "name": "loss", "value": 1}, {"type": "checkpoint"},
        {"type": "artifact", "name": "net", "path": "net"}, {"type": "error"}, {"type": "yield"}, {"type": "done"},
    ]  # fmt: skip
    facts = read_facts(written(tmp_path, *events), stop_offset=None)
    assert (facts.bad_lines, facts.first_bad) == (0, "")


def test_of_several_lines_that_were_not_understood_the_first_three_are_quoted(tmp_path: Path) -> None:
    nameless = {"type": "artifact", "path": "out"}
    facts = read_facts(written(tmp_path, nameless, {"type": "artifact", "name": 3}, b"x", b"y"), stop_offset=None)
    assert facts.bad_lines == 4
    assert facts.first_bad == """'{"type": "artifact", "path": "out"}', '{"type": "artifact", "name": 3}', 'x'"""


def test_the_first_line_that_was_not_understood_is_quoted_cut_and_printable(tmp_path: Path) -> None:
    path = written(tmp_path, PROGRESS, b"epoch\x00 1 \x1b[31m\xff" + b"y" * 6000)
    facts = read_facts(path, stop_offset=None)
    assert facts.bad_lines == 1
    assert facts.first_bad.startswith(r"'epoch\x00 1 \x1b[31m\\xffyyy")
    assert facts.first_bad.endswith("yyy...'")
    assert facts.first_bad.isprintable()
    assert len(facts.first_bad) < 150


@pytest.mark.parametrize(
    "event",
    [
        {**PROGRESS, "step": -1}, {**PROGRESS, "total": "nine"}, {**PROGRESS, "step": True},
        {"type": "metric", "step": 1, "name": "loss", "value": float("nan")},
        {"type": "metric", "step": 1, "name": "loss", "value": 10**400},
        {"type": "metric", "step": 1, "name": 3, "value": 1},
        {"type": "launch_missiles"},
    ],
)  # fmt: skip
def test_values_out_of_shape_and_unknown_types_are_not_passed_on(tmp_path: Path, event: dict[str, Any]) -> None:
    assert EventsTail(written(tmp_path, event)).poll(0.0) == []


def test_a_line_is_read_when_its_end_is_there(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"type": "progress", "st')
    tail = EventsTail(path)
    assert tail.poll(0.0) == []
    with path.open("ab") as out:
        out.write(b'ep": 1, "total": 9, "unit": "step"}\n')
    assert tail.poll(1.0) == [PROGRESS]


def test_at_most_100_lines_a_second_are_passed_on(tmp_path: Path) -> None:
    tail = EventsTail(written(tmp_path, *[PROGRESS] * 1000))
    assert (len(tail.poll(0.0)), tail.left_out) == (100, 900)


def test_a_line_without_end_does_not_block_the_file(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"x" * 10_000)
    tail = EventsTail(path)
    tail.poll(0.0)
    with path.open("ab") as out:
        out.write(b"\n" + json.dumps(PROGRESS).encode() + b"\n")
    assert tail.poll(1.0) == [PROGRESS]


def test_facts_are_what_was_declared_in_the_whole_file(tmp_path: Path) -> None:
    first, again = ({"type": "artifact", "name": "m", "path": p} for p in ("a", "b"))
    path = written(
        tmp_path, first, b"junk", {"type": "checkpoint", "step": 7}, again, {"type": "done"},
        {"type": "error", "code": "nan", "message": "loss\0is NaN"},
    )  # fmt: skip
    facts = read_facts(path, stop_offset=None)
    assert (facts.done, facts.last_step, facts.artifacts, facts.bad_lines) == (True, 7, (again,), 1)
    assert (facts.error_code, facts.error_message) == ("nan", "loss\N{REPLACEMENT CHARACTER}is NaN")


def test_a_checkpoint_counts_as_after_the_stop_by_its_place_in_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, {"type": "checkpoint", "step": 1})
    assert read_facts(path, stop_offset=0).checkpoint_after_stop is True
    assert read_facts(path, stop_offset=path.stat().st_size).checkpoint_after_stop is False


def test_no_file_declares_nothing(tmp_path: Path) -> None:
    assert read_facts(tmp_path / "none", stop_offset=None).done is False


def test_a_unit_that_is_no_utf8_is_told_as_far_as_it_is(tmp_path: Path) -> None:
    (told,) = EventsTail(written(tmp_path, {**PROGRESS, "unit": "st\ud800ep"})).poll(0.0)
    assert told["unit"] == "st?ep"


# ---------------------------------------------------------------- the log


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"plain\n", "plain\n"),
        (b"a\0b", "a\N{REPLACEMENT CHARACTER}b"),
        (b"a\xffb", "a\N{REPLACEMENT CHARACTER}b"),
        (b"\xed\xa0\x80", "\N{REPLACEMENT CHARACTER}" * 3),
        (b"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
        ("\N{GRINNING FACE}é".encode(), "\N{GRINNING FACE}é"),
        (b"cut \xf0\x9f\x98", "cut \N{REPLACEMENT CHARACTER}"),
        (b"", ""),
    ],
)
def test_any_bytes_become_valid_text_without_nul(tmp_path: Path, raw: bytes, text: str) -> None:
    (tmp_path / "stdout").write_bytes(raw)
    assert whole(LogTail(tmp_path / "stdout", 2**20)) == text


def test_a_character_written_in_two_halves_arrives_whole(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    path.write_bytes(b"a\xc3")
    log = LogTail(path, 2**20)
    assert log.chunk(final=False) == (0, "a")
    with path.open("ab") as out:
        out.write(b"\xa9")
    log.acknowledge(1)
    assert log.chunk(final=True) == (1, "é")


def test_chunks_are_bounded_and_never_cut_a_character(tmp_path: Path) -> None:
    text = "é" * CHUNK_BYTES
    (tmp_path / "stdout").write_text("x" + text, encoding="utf-8")
    log = LogTail(tmp_path / "stdout", 2**24)
    chunk = log.chunk(final=True)
    assert chunk is not None
    assert len(chunk[1].encode()) in (CHUNK_BYTES - 1, CHUNK_BYTES)
    assert whole(LogTail(tmp_path / "stdout", 2**24)) == "x" + text


def test_of_a_huge_log_the_head_and_the_tail_are_kept_with_a_line_between(tmp_path: Path) -> None:
    (tmp_path / "stdout").write_bytes(b"H" * 500 + b"m" * 3_000_000 + b"T" * 404)
    text = whole(LogTail(tmp_path / "stdout", 1000))
    assert text == "H" * 500 + "\n[... 3000000 bytes of log left out: log_bytes is 1000 ...]\n" + "T" * 404


@pytest.mark.parametrize("size", [999, 1000, 1001, 1095, 1096, 1500, 4_000_000])
@pytest.mark.parametrize("letter", ["x", "\N{SNOWMAN}", "\0"])
def test_a_log_is_never_more_than_its_cap_and_always_has_its_end(tmp_path: Path, size: int, letter: str) -> None:
    last = "RuntimeError: loss is nan\n"
    text = letter * ((size - len(last)) // len(letter.encode())) + last
    (tmp_path / "stdout").write_bytes(b"a" * 500 + text.encode())
    kept = whole(LogTail(tmp_path / "stdout", 1500))
    assert len(kept.encode()) <= 1500
    assert kept.endswith(last)
    assert ("left out" in kept) is (len(clean_text(text).encode()) > 1000)


def test_of_a_log_whose_first_half_takes_all_the_room_it_is_told_how_much_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "stdout").write_bytes(b"\xff" * 500 + b"m" * 3000)  # three bytes of text for each that is none
    text = whole(LogTail(tmp_path / "stdout", 1000))
    assert text == "\N{REPLACEMENT CHARACTER}" * 500 + "\n[... 3000 bytes of log left out: log_bytes is 1000 ...]\n"


def test_a_restarted_reader_of_a_huge_log_goes_on_in_its_end(tmp_path: Path) -> None:
    (tmp_path / "stdout").write_bytes(b"H" * 500 + b"m" * 3_000_000 + b"0123456789" * 50)
    full = whole(LogTail(tmp_path / "stdout", 1000)).encode()
    for held in (0, 499, 500, 530, 700, len(full)):
        log = LogTail(tmp_path / "stdout", 1000)
        log.acknowledge(held)
        rest = b""
        while chunk := log.chunk(final=True):
            rest += chunk[1].encode()
            log.acknowledge(held + len(rest))
        assert rest == full[held:]


def test_the_tail_is_not_sent_while_the_job_runs(tmp_path: Path) -> None:
    (tmp_path / "stdout").write_bytes(b"H" * 500 + b"m" * 5000)
    log = LogTail(tmp_path / "stdout", 1000)
    log.acknowledge(500)
    assert log.chunk(final=False) is None


@pytest.mark.parametrize("held", [0, 3, 700, 1000])
def test_a_restarted_reader_goes_on_where_the_server_is(tmp_path: Path, held: int) -> None:
    (tmp_path / "stdout").write_bytes(b"\xff" * 100 + b"0123456789" * 70)
    full = whole(LogTail(tmp_path / "stdout", 2**20)).encode()
    log = LogTail(tmp_path / "stdout", 2**20)
    log.acknowledge(held)
    chunk = log.chunk(final=True)
    assert (chunk or (0, ""))[1].encode() == full[held:]


def test_a_server_that_has_less_than_it_said_gets_it_again(tmp_path: Path) -> None:
    (tmp_path / "stdout").write_bytes(b"0123456789")
    log = LogTail(tmp_path / "stdout", 2**20)
    log.chunk(final=False)
    log.acknowledge(8)
    log.acknowledge(2)
    assert log.chunk(final=True) == (2, "23456789")
