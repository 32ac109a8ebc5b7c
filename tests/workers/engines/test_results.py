"""Steps of results are whole or not there, and only those of the same plan are gone on from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.workers.engines.builders import refusal
from workers.engines.results import STATE, Results


def rows(first: int, last: int) -> list[dict]:
    return [{"index": index, "nll": index / 8} for index in range(first, last)]


def grown(directory: Path, *upto: int, plan: str = "p") -> Results:
    """Results saved at each of these numbers of rows."""
    made = Results(directory, plan)
    made.restore()
    for last in upto:
        made.append(rows(len(made), last))
        made.save()
    return made


def restored(directory: Path, plan: str = "p") -> int:
    return Results(directory, plan).restore()


def test_only_the_newest_step_is_left_and_holds_all_rows(tmp_path: Path) -> None:
    made = grown(tmp_path, 3, 5, 9)
    assert [p.name for p in tmp_path.iterdir()] == ["step-9"]
    assert sorted(p.name for p in (tmp_path / "step-9").iterdir()) == [
        "rows-0.jsonl", "rows-3.jsonl", "rows-5.jsonl", STATE
    ]  # fmt: skip
    again = Results(tmp_path, "p")
    assert (again.restore(), list(again.lines())) == (9, list(made.lines()))
    assert [json.loads(line) for line in again.lines()] == rows(0, 9)


def test_a_step_that_is_saved_twice_is_one(tmp_path: Path) -> None:
    made = grown(tmp_path, 4)
    assert (made.save(), [p.name for p in tmp_path.iterdir()]) == ("step-4", ["step-4"])


def test_a_step_of_nothing_is_a_step(tmp_path: Path) -> None:
    assert Results(tmp_path, "p").save() == "step-0"
    assert restored(tmp_path) == 0


def test_a_file_of_an_earlier_step_is_never_written_again(tmp_path: Path) -> None:
    made = grown(tmp_path, 3)
    number = (tmp_path / "step-3" / "rows-0.jsonl").stat().st_ino
    made.append(rows(3, 6))
    made.save()
    assert (tmp_path / "step-6" / "rows-0.jsonl").stat().st_ino == number


def test_where_there_are_no_hard_links_files_are_copied(tmp_path: Path, monkeypatch) -> None:
    made = grown(tmp_path, 3)

    def none(self, target):
        raise PermissionError("no hard links here")

    monkeypatch.setattr(Path, "hardlink_to", none)
    made.append(rows(3, 6))
    made.save()
    assert restored(tmp_path) == 6


def test_another_plans_steps_are_begun_anew(tmp_path: Path) -> None:
    grown(tmp_path, 5, plan="another")
    assert (restored(tmp_path), list(tmp_path.iterdir())) == (0, [])


def newest_damaged(how) -> int:
    def damage(directory: Path) -> int:
        grown(directory, 4)
        shutil.copytree(directory / "step-4", directory / "kept")
        grown(directory, 7)
        (directory / "kept").rename(directory / "step-4")
        how(directory / "step-7")
        return restored(directory)

    return damage


@pytest.mark.parametrize(
    "how",
    [
        lambda step: (step / STATE).unlink(),
        lambda step: (step / STATE).write_text("{"),
        lambda step: (step / STATE).write_text("[1]"),
        lambda step: (step / STATE).write_text((step / STATE).read_text().replace('"next":7', '"next":8')),
        lambda step: (step / "rows-4.jsonl").unlink(),
        lambda step: (step / "rows-4.jsonl").write_bytes((step / "rows-4.jsonl").read_bytes()[:-1]),
        lambda step: (step / "rows-4.jsonl").write_bytes(
            (step / "rows-4.jsonl").read_bytes().replace(b"0.625", b"0.626")
        ),
    ],
    ids=["no state", "half a state", "another state", "another count", "no file", "a byte short", "another digit"],
)
def test_a_step_that_is_not_whole_gives_way_to_the_one_before(how, tmp_path: Path) -> None:
    assert newest_damaged(how)(tmp_path) == 4
    assert [p.name for p in tmp_path.iterdir()] == ["step-4"]


def test_half_of_a_step_is_removed(tmp_path: Path) -> None:
    grown(tmp_path, 2)
    shutil.copytree(tmp_path / "step-2", tmp_path / ".step-9.tmp")
    assert (restored(tmp_path), [p.name for p in tmp_path.iterdir()]) == (2, ["step-2"])


def test_published_it_is_every_row_in_one_file(tmp_path: Path) -> None:
    made = grown(tmp_path / "steps", 3, 5)
    made.append(rows(5, 8))
    assert list(made.publish(tmp_path / "r.jsonl")) == rows(0, 8)
    assert (tmp_path / "r.jsonl").read_bytes() == b"".join(made.lines())


@pytest.mark.parametrize(("indices", "found", "due"), [([0, 2], 2, 1), ([0, 0], 0, 1), ([1], 1, 0)])
def test_a_sample_that_is_missing_or_double_is_an_error_and_leaves_no_file(indices, found, due, tmp_path: Path) -> None:
    made = Results(tmp_path / "steps", "p")
    made.append([{"index": index} for index in indices])
    wrong = refusal(lambda: list(made.publish(tmp_path / "r.jsonl")))
    assert (wrong.code, wrong.details) == ("wrong_results", {"index": found, "expected": due})
    assert not (tmp_path / "r.jsonl").exists()


def test_nan_is_no_row(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        Results(tmp_path, "p").append([{"index": 0, "nll": float("nan")}])


@pytest.mark.parametrize(("count", "sizes"), [(8, [3, 3, 2]), (9, [3, 3, 3]), (2, [2]), (3, [3]), (0, [])])
def test_published_in_parts_it_is_every_row_in_its_order(count: int, sizes: list[int], tmp_path: Path) -> None:
    made = grown(tmp_path / "steps", *([min(count, 5)] if count else []))
    made.append(rows(len(made), count))
    found = [(path.name, list(each)) for path, each in made.publish_parts(tmp_path, 3)]
    assert [name for name, _ in found] == [f"part-0000{n}.jsonl" for n in range(len(sizes))]
    assert [len(each) for _, each in found] == sizes
    assert [row for _, each in found for row in each] == rows(0, count)
    assert b"".join((tmp_path / name).read_bytes() for name, _ in found) == b"".join(made.lines())


def test_a_part_with_a_row_that_is_not_due_is_an_error_and_no_file(tmp_path: Path) -> None:
    made = Results(tmp_path / "steps", "p")
    made.append([*rows(0, 3), *rows(4, 6)])
    (first, one), (second, two) = made.publish_parts(tmp_path, 3)
    assert (list(one), first.exists()) == (rows(0, 3), True)
    assert refusal(lambda: list(two)).code == "wrong_results"
    assert not second.exists()
