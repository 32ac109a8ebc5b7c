"""Task files of lm-eval are data: what they name lies beside them, and no code of theirs runs. No library is needed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.lm_eval.task_files import CHOICES, SAID, WHOLE, written
from workers.engines import harness_files
from workers.engines.harness import EXTRA, harness_library
from workers.engines.harness_files import read_task_files
from workers.engines.refusals import EngineRefusal

ROOT = Path(__file__).parents[3]


def refusal(directory: Path, *named: str) -> EngineRefusal:
    with pytest.raises(EngineRefusal) as caught:
        read_task_files(directory, list(named) or None, "tests")
    return caught.value


def test_all_tasks_are_found_by_name_and_those_that_are_named_in_their_order(tmp_path: Path) -> None:
    written(tmp_path, CHOICES, WHOLE, SAID)
    assert [task.name for task in read_task_files(tmp_path, None, "tests")] == ["rivers", "said", "speech"]
    found = read_task_files(tmp_path, ["speech", "rivers"], "tests")
    assert [(task.name, task.file) for task in found] == [("speech", "1.yaml"), ("rivers", "0.yaml")]
    at = str((tmp_path / "q.jsonl").resolve())
    assert found[1].document["dataset_kwargs"] == {"data_files": {"test": [at], "train": [at]}}


def test_a_task_says_more_than_what_it_includes(tmp_path: Path) -> None:
    written(tmp_path / "sub", CHOICES)
    (tmp_path / "sub" / "base").write_text((tmp_path / "sub" / "0.yaml").read_text())
    (tmp_path / "sub" / "0.yaml").write_text("include: base\ntask: more\nnum_fewshot: 2\n")
    (task,) = read_task_files(tmp_path, None, "tests")
    assert (task.name, task.document["num_fewshot"], task.document["doc_to_text"]) == ("more", 2, "{{q}}")
    assert "include" not in task.document


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("task: a\nprocess_docs: !function utils.process\n", "custom_code",
         "x.yaml names code of its own (!function utils.process), which is never run: write a template"),
        ("task: !!python/object/apply:os.system [id]\n", "unreadable_task", "x.yaml is no YAML that can be read"),
        ("task: [", "unreadable_task", "x.yaml is no YAML"),
        ("- 1\n", "unreadable_task", "x.yaml must be an object of YAML, not [1]"),
        ("include: x.yaml\ntask: a\n", "include_cycle", "x.yaml includes itself, or more than 8 deep"),
        ("include: ../other.yaml\ntask: a\n", "no_such_file", "x.yaml includes '../other.yaml', which is no file"),
        ("include: /etc/hostname\ntask: a\n", "no_such_file", "'/etc/hostname'"),
        ("include: 3\ntask: a\n", "no_such_file", "x.yaml includes 3"),
        ("group: g\ntask: [a, b]\n", "unsupported_group", "x.yaml is a group, which is not taken"),
        ("description: none\n", "no_task_file", "no file of tests has a task: give one that says task"),
    ],
)  # fmt: skip
def test_a_file_that_can_not_be_a_task_is_refused(text, code, words, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("task: outside\n")
    directory = tmp_path / "tests"
    directory.mkdir()
    (directory / "x.yaml").write_text(text)
    found = refusal(directory)
    assert (found.code, len(found.problems)) == (code, 1)
    assert words in found.message


def test_files_of_tasks_that_nobody_asked_for_may_be_wrong(tmp_path: Path) -> None:
    written(tmp_path, CHOICES, {**WHOLE, "dataset_path": "wikitext"})
    (tmp_path / "x.yaml").write_text("task: a\nclass: !function a.b\n")
    assert [task.name for task in read_task_files(tmp_path, ["rivers"], "tests")] == ["rivers"]
    assert {problem.code for problem in refusal(tmp_path).problems} == {"custom_code", "unsupported_dataset"}


def test_a_name_that_no_file_has_is_told_with_those_that_there_are(tmp_path: Path) -> None:
    found = refusal(written(tmp_path, CHOICES, WHOLE), "river", "speech")
    assert (found.code, found.details["field"]) == ("no_such_task", "params.tasks")
    assert found.message == "'tests' has no task 'river' (did you mean 'rivers'?); its tasks are rivers, speech"


def test_two_files_of_one_name_and_more_tasks_than_are_done_are_refused(tmp_path: Path, monkeypatch) -> None:
    twice = refusal(written(tmp_path / "a", CHOICES, CHOICES))
    assert (twice.code, twice.message) == (
        "twice", "tests has task rivers in 0.yaml, 1.yaml: leave one of them out",
    )  # fmt: skip
    monkeypatch.setattr(harness_files, "MAX_TASKS", 1)
    many = refusal(written(tmp_path / "b", CHOICES, WHOLE))
    assert (many.code, many.details["limit"]) == ("too_many_tasks", 1)
    assert "tests has 2 tasks, at most 1 are done by one job: name those with tasks" in many.message


@pytest.mark.parametrize("name", ["../q.jsonl", "https://example.org/q.jsonl", "none.jsonl", "0.yaml", "/etc/x.json"])
def test_data_that_does_not_lie_beside_the_task_is_refused(name, tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text("{}\n")
    task = {**WHOLE, "dataset_kwargs": {"data_files": {"test": name}}}
    found = refusal(written(tmp_path / "tests", task))
    assert found.code == "no_such_file"
    assert f"0.yaml: '{name}' of data_files is no file of the data set that ends in .jsonl or .json" in found.message


def test_a_link_out_of_the_data_set_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "far.jsonl").write_text("{}\n")
    directory = written(tmp_path / "tests", WHOLE)
    (directory / "q.jsonl").unlink()
    (directory / "q.jsonl").symlink_to(tmp_path / "far.jsonl")
    assert refusal(directory).code == "no_such_file"


def test_files_that_are_too_large_are_refused(tmp_path: Path, monkeypatch) -> None:
    written(tmp_path, WHOLE)
    monkeypatch.setattr(harness_files, "MAX_BYTES", 10)
    data = refusal(tmp_path)
    assert (data.code, data.details["limit"]) == ("too_large", 10)
    monkeypatch.setattr(harness_files, "MAX_TASK_FILE", 10)
    assert "a task file at most 10: put the data beside it" in refusal(tmp_path).message


def test_a_node_without_the_library_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    with pytest.raises(EngineRefusal) as caught:
        harness_library()
    found = caught.value
    assert (found.code, found.details) == ("missing_extra", {"field": "params.harness", "install": EXTRA})
    assert (
        "has no lm_eval: install requirements/lm-eval.txt there (pip install -r requirements/lm-eval.txt)"
        in found.message
    )


def test_what_is_to_be_installed_is_pinned() -> None:
    pins = {line.split("==")[0].lower() for line in (ROOT / "requirements/constraints.txt").read_text().splitlines()}
    extra = (ROOT / EXTRA).read_text()
    assert re.search(r"^lm_eval==\d", extra, re.M)
    assert {"lm_eval", "datasets", "pyarrow", "pandas", "evaluate", "sacrebleu"} <= pins
