"""Rows that a model is given: all are read before the first, every fault told; some bad ones may be passed over."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tests.workers.engines.builders import refusal
from tests.workers.engines.evaluations import DECODER, MLP, given_of, json_lines, labelled

GOOD = json.dumps({"input": [1, 2.5, -3e2, 0, 4]})
BYTES = {name: value for name, value in DECODER.items() if name != "characters"}


def written(path: Path, content: str) -> Path:
    path.write_text(content, "utf-8")
    return path


def faults(path: Path, config=MLP, **how) -> list[str]:
    """What is said of the file, without its name."""
    found = refusal(given_of, path, config, **how)
    return [
        f"{p.code}: {p.message.removeprefix(path.name).removeprefix(', ').removeprefix(': ')}" for p in found.problems
    ]


def test_all_formats_of_the_same_rows_are_the_same_whether_they_have_labels_or_not(tmp_path: Path) -> None:
    rows = labelled(12)
    numbers = torch.tensor([row["input"] for row in rows], dtype=torch.float64)
    save_file({"inputs": numbers}, tmp_path / "a.safetensors")
    save_file({"inputs": numbers, "labels": torch.zeros(12)}, tmp_path / "b.safetensors")
    lines = [",".join(map(str, row["input"])) for row in rows]
    found = [
        given_of(path, MLP)
        for path in (
            json_lines(tmp_path / "a.jsonl", [{"input": row["input"]} for row in rows]),
            json_lines(tmp_path / "b.jsonl", rows),
            json_lines(tmp_path / "c.jsonl", [{**row, "label": "not read"} for row in rows]),
            written(tmp_path / "a.csv", "\n".join(["a,b,c,d,e", *lines])),
            written(tmp_path / "b.csv", "\n".join(["a,b,c,d,e,label", *(f"{line},?" for line in lines)])),
            tmp_path / "a.safetensors",
            tmp_path / "b.safetensors",
        )
    ]
    assert all(torch.equal(each.inputs, numbers) and not each.bad for each in found)


def test_the_labels_beside_texts_to_go_on_from_are_not_read_either(tmp_path: Path) -> None:
    alone = given_of(json_lines(tmp_path / "a.jsonl", [{"text": "ab"}]), DECODER)
    for path in (
        json_lines(tmp_path / "b.jsonl", [{"text": "ab", "label": 1}]),
        written(tmp_path / "c.csv", "text,label\nab,1\n"),
    ):
        found = given_of(path, DECODER)
        assert (found.digest(0), found.bad) == (alone.digest(0), {})


def test_the_digest_of_a_row_is_that_of_its_text_or_its_numbers(tmp_path: Path) -> None:
    texts = given_of(json_lines(tmp_path / "a.jsonl", [{"text": "öa"}, {"text": "b"}]), DECODER)
    by_bytes = given_of(tmp_path / "a.jsonl", BYTES)
    numbers = given_of(written(tmp_path / "b.jsonl", GOOD), MLP)
    assert texts.digest(0) == by_bytes.digest(0) == hashlib.sha256("öa".encode()).hexdigest()
    assert numbers.digest(0) == hashlib.sha256(struct.pack("<5d", 1, 2.5, -3e2, 0, 4)).hexdigest()


def test_tokens_become_text_again_and_what_is_no_utf8_is_marked(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "a.jsonl", [{"text": "a"}])
    assert given_of(path, DECODER).text(0, [5, 0, 4]) == "öa "
    assert given_of(path, BYTES).text(0, [0xC3, 0xB6, 0xFF]) == "ö\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("line", "config", "told"),
    [
        ("", MLP, "empty_line: line 2: it is empty: remove it, each line is one sample"),
        ("{", MLP, "bad_json: line 2: it is no JSON"),
        ('{"label": 1}', MLP, "missing_column: line 2: it has no input: name them so"),
        ('{"x": [1, 2]}', MLP, "missing_column: line 2: it has no input, and has 'x': name them so"),
        (json.dumps({"input": [0] * 5, "id": 3}), MLP,
         "unknown_column: line 2: 'id' is not read: leave it out, a sample has input"),
        ('{"input": [1, 2, 3, 4, NaN]}', MLP, "not_finite: line 2: input holds nan: every number must be finite"),
        ('{"input": [1]}', MLP, "wrong_length: line 2: input has 1 numbers, the model reads 5: give as many"),
        ('{"text": ""}', DECODER, "too_short: line 2: text must have at least 1 token, to begin with"),
        ('{"text": 3}', DECODER, "not_a_text: line 2: text must be a text, not 3"),
        ('{"text": "abz"}', DECODER, "unknown_character: line 2: text holds 'z', none of the model's characters"),
        ('{"text": "a\\ud800"}', BYTES, "not_utf8: line 2: text holds half of a surrogate pair, which is no character"),
        ('{"text": "ab", "labels": 1}', DECODER, "unknown_column: line 2: 'labels' is not read: leave it out"),
    ],
)  # fmt: skip
def test_a_bad_row_is_refused_with_its_line_and_where_it_may_be_passed_over_it_says_why(line, config, told, tmp_path):
    good = GOOD if config is MLP else '{"text": "ab"}'
    path = written(tmp_path / "d.jsonl", f"{good}\n{line}\n{good}\n")
    (found,) = faults(path, config)
    assert found.startswith(told)
    passed = given_of(path, config, spared=1)
    assert (len(passed), list(passed.bad)) == (3, [1])
    assert f"{passed.bad[1].code}: {passed.bad[1].message}" == found


@pytest.mark.parametrize("line", ["", "1,2", "1,2,x,4,5", "1,2,inf,4,5"])
def test_a_bad_row_of_a_csv_is_passed_over_too(line: str, tmp_path: Path) -> None:
    path = written(tmp_path / "d.csv", f"a,b,c,d,e\n1,2,3,4,5\n{line}\n5,4,3,2,1\n")
    passed = given_of(path, MLP, spared=2)
    assert (passed.inputs.tolist(), list(passed.bad)) == ([[1, 2, 3, 4, 5], [0] * 5, [5, 4, 3, 2, 1]], [1])
    assert passed.bad[1].message.startswith("line 3: ")


def test_a_row_of_tensors_that_is_not_finite_is_passed_over_too(tmp_path: Path) -> None:
    inputs = torch.ones(3, 5)
    inputs[1, 2] = math.inf
    save_file({"inputs": inputs}, tmp_path / "d.safetensors")
    passed = given_of(tmp_path / "d.safetensors", MLP, spared=1)
    assert (passed.inputs.sum(1).tolist(), list(passed.bad)) == ([5, 0, 5], [1])
    assert faults(tmp_path / "d.safetensors") == [
        "not_finite: sample 1: inputs holds NaN or infinity: every number must be finite"
    ]


def test_more_bad_rows_than_are_passed_over_are_refused_with_their_number_and_all_of_them(tmp_path: Path) -> None:
    path = written(tmp_path / "d.jsonl", f'{GOOD}\n\n{{"input": 3}}\n{GOOD}\n{{}}\n')
    assert len(given_of(path, MLP, spared=3)) == 5
    found = refusal(given_of, path, MLP, spared=2)
    first, *others = found.problems
    assert (first.code, first.details) == (
        "too_many_bad_rows", {"field": "params.max_bad_rows", "limit": 2, "bad_rows": 3}
    )  # fmt: skip
    assert first.message == ("d.jsonl has 3 bad rows, at most max_bad_rows, 2, are passed over: mend them, or raise it")
    assert [p.details["place"] for p in others] == ["line 2", "line 3", "line 5"]


def test_of_very_many_the_first_are_told_and_the_rest_counted(tmp_path: Path) -> None:
    path = written(tmp_path / "d.jsonl", "\n" * 70)
    assert len(faults(path)) == 21
    assert faults(path)[-1] == "more_problems: and 50 more in it"
    assert len(given_of(path, MLP, spared=70).bad) == 70


@pytest.mark.parametrize(
    ("name", "content", "config", "told"),
    [
        ("d.jsonl", "", MLP, "empty_dataset: it has no sample: give at least one"),
        ("d.csv", "a,b,c,d,e\n", MLP, "empty_dataset: it has no sample: give at least one"),
        ("d.csv", "a,a\n1,2\n", MLP, "unknown_column: line 1: the header names 'a' twice: once each"),
        ("d.csv", "words\nab\n", DECODER, "missing_column: line 1: the header has no text"),
        ("d.csv", 'text\n"ab\n', DECODER, "bad_csv: line 2: it is no CSV"),
    ],
)
def test_what_is_wrong_with_the_whole_file_is_never_passed_over(name, content, config, told, tmp_path: Path) -> None:
    (found,) = faults(written(tmp_path / name, content), config, spared=100)
    assert found.startswith(told)


def test_the_limit_takes_the_first_rows_the_bad_ones_among_them(tmp_path: Path) -> None:
    path = written(tmp_path / "d.jsonl", f"{GOOD}\n\n{GOOD}\nrubbish\n")
    assert len(given_of(path, MLP, 3, spared=1)) == 3
    refusal(given_of, path, MLP, 4, spared=1)
