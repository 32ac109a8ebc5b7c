"""Events, companion files and the choice of what a checkpoint ships."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workers.emep_job import EventLog
from workers.engines.refusals import EngineRefusal, Problem
from workers.kinds.checkpoint import due_s, worth_shipping
from workers.kinds.companions import MAX_COMPANION, copy_companions
from workers.protocol import MAX_EVENT_LINE


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_each_event_is_one_line_appended_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "events").write_text('{"type":"earlier"}\n')
    EventLog(tmp_path / "events").emit("progress", step=1, total=2, rate=None)
    assert lines(tmp_path / "events") == [{"type": "earlier"}, {"type": "progress", "step": 1, "total": 2}]


def test_a_newline_in_a_name_stays_inside_its_line(tmp_path: Path) -> None:
    EventLog(tmp_path / "events").emit("artifact", name="a\nb\u2028c")
    assert lines(tmp_path / "events") == [{"type": "artifact", "name": "a\nb\u2028c"}]


def test_without_a_file_events_go_nowhere() -> None:
    EventLog(None).emit("done")


def test_an_event_above_the_limit_is_a_bug(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="limit is 4096"):
        EventLog(tmp_path / "events").emit("metric", name="x" * 5000)


def test_nan_is_no_json(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        EventLog(tmp_path / "events").emit("metric", value=float("nan"))


@pytest.mark.parametrize(
    "problems",
    [
        [Problem("shape_mismatch", f"tensor {i} " + "é" * 50, {"tensor": "é" * 50}) for i in range(60)],
        [Problem("corrupt_input", "x" * 9000, {"file": "y" * 9000})],
    ],
    ids=["many problems", "one long problem"],
)
def test_a_long_refusal_is_cut_to_one_line_that_says_so(problems: list[Problem], tmp_path: Path) -> None:
    refusal = EngineRefusal.of(problems)
    EventLog(tmp_path / "events").error(refusal.code, refusal.message, refusal.details)
    (event,) = lines(tmp_path / "events")
    assert (event["code"], event["details"]["omitted"] > 0) == (problems[0].code, True)
    assert len((tmp_path / "events").read_bytes()) <= MAX_EVENT_LINE


def test_everything_but_weights_is_carried_over(tmp_path: Path) -> None:
    source = tmp_path / "in"
    for name in ("config.json", "1_Pooling/config.json", "model.safetensors", "pytorch_model.bin", "net.onnx",
                 "model.safetensors.index.json", ".gitattributes"):  # fmt: skip
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
    (source / "link").symlink_to(source / "config.json")
    done = copy_companions(source, tmp_path / "out")
    assert done.copied == (".gitattributes", "1_Pooling/config.json", "config.json")
    assert sorted(p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*") if p.is_file()) == [
        *done.copied
    ]


def test_a_companion_that_is_too_large_is_named(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with (tmp_path / "in" / "huge.txt").open("wb") as file:
        file.truncate(MAX_COMPANION + 1)
    assert copy_companions(tmp_path / "in", tmp_path / "out").skipped == ("huge.txt",)


@pytest.mark.parametrize(("finished", "spent_s", "ship"), [(10**9, 11.0, True), (10**9, 9.0, False), (0, 9.0, False)])
def test_the_output_is_shipped_only_if_that_is_faster_than_redoing(finished: int, spent_s: float, ship: bool) -> None:
    assert worth_shipping(finished, spent_s, upload_bytes_per_s=100e6) is ship


@pytest.mark.parametrize(
    ("elapsed", "cost", "due"),
    [(0, 0, 5), (6, 0, 5), (20, 0, 10), (70, 0, 30), (400, 0, 30), (1200, 0, 60), (70, 4, 80)],
    ids=["first", "early", "doubling", "steady", "still", "a twentieth of the time", "twenty times what one takes"],
)
def test_checkpoints_come_soon_at_first_and_take_a_twentieth_of_the_time(elapsed, cost, due: float) -> None:
    assert due_s(elapsed, cost) == pytest.approx(due)
