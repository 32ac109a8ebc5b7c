"""A data set is read whole and checked before its first sample: every fault with its line, all at once."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from tests.workers.engines.builders import refusal
from tests.workers.engines.evaluations import DECODER, MLP, json_lines, labelled, samples_of, texts
from workers.engines import data_files as reading

GOOD = json.dumps({"input": [1, 2.5, -3e2, 0, 4], "label": 2})


def faults(tmp: Path, content: str | bytes, config=MLP, name: str = "d.jsonl", limit: int | None = None) -> list[str]:
    """What is said of a file with this content, without its name."""
    path = tmp / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = refusal(samples_of, path, config, limit)
    assert all(p.details["field"] == "params.dataset" for p in found.problems)
    return [f"{p.code}: {p.message.removeprefix(name).removeprefix(', ').removeprefix(': ')}" for p in found.problems]


def tensors(path: Path, **named: torch.Tensor) -> Path:
    save_file(named, path)
    return path


def equal(one, other) -> bool:
    return torch.equal(one.inputs, other.inputs) and torch.equal(one.labels, other.labels)


def test_all_three_formats_of_the_same_samples_are_the_same(tmp_path: Path) -> None:
    rows = labelled(20)
    by_lines = samples_of(json_lines(tmp_path / "d.jsonl", rows), MLP)
    head = "b,a,label,c,d,e\n"
    order = [0, 1, None, 2, 3, 4]
    made = [",".join(str(r["label"] if i is None else r["input"][i]) for i in order) + "\n" for r in rows]
    (tmp_path / "d.csv").write_text(head + "".join(made))
    inputs = torch.tensor([r["input"] for r in rows], dtype=torch.float64)
    labels = torch.tensor([r["label"] for r in rows], dtype=torch.uint8)
    tensors(tmp_path / "d.safetensors", inputs=inputs, labels=labels)
    assert equal(by_lines, samples_of(tmp_path / "d.csv", MLP))
    assert equal(by_lines, samples_of(tmp_path / "d.safetensors", MLP))
    assert (by_lines.inputs.tolist(), len(by_lines)) == ([r["input"] for r in rows], 20)


def test_texts_by_lines_and_by_csv_are_the_same(tmp_path: Path) -> None:
    rows = [*texts(10), {"text": "ab\nba"}, {"text": 'a"b, d'}]
    config = {**DECODER, "characters": 'abcd ö\n",'}
    (tmp_path / "d.csv").write_text("text\r\n" + "".join('"' + r["text"].replace('"', '""') + '"\r\n' for r in rows))
    one = samples_of(json_lines(tmp_path / "d.jsonl", rows), config)
    other = samples_of(tmp_path / "d.csv", config)
    assert [t.tolist() for t in one.tokens] == [t.tolist() for t in other.tokens]
    assert one.tokens[10].tolist() == [0, 1, 6, 1, 0]


def test_a_byte_order_mark_is_no_part_of_a_csv(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_bytes(b"\xef\xbb\xbftext\nab\n")
    assert len(samples_of(tmp_path / "d.csv", DECODER)) == 1


@pytest.mark.parametrize("name", ["d.jsonl", "d.csv", "d.safetensors"])
def test_the_limit_takes_the_first_samples_and_looks_at_no_others(name: str, tmp_path: Path) -> None:
    content = {"d.jsonl": (GOOD + "\n") * 3 + "rubbish\n", "d.csv": "a,b,c,d,e,label\n" + "1,2,3,4,5,0\n" * 3 + "x\n"}
    if name in content:
        (tmp_path / name).write_text(content[name])
    else:
        tensors(tmp_path / name, inputs=torch.ones(4, 5), labels=torch.tensor([0, 1, 2, 9]))
    assert len(samples_of(tmp_path / name, MLP, 3)) == 3
    refusal(samples_of, tmp_path / name, MLP, 4)


BAD_LINES: list[tuple[Any, str]] = [
    ("", "empty_line: line 2: it is empty: remove it, each line is one sample"),
    ("  \t", "empty_line: line 2: it is empty: remove it, each line is one sample"),
    ("{", "bad_json: line 2: it is no JSON (Expecting property name enclosed in double quotes: line 2 column 1 (char 2)"
          "): write one object a line"),
    ("[1]", "not_an_object: line 2: it is [1]: write an object with input and label"),
    ('{"x": 1}', "missing_column: line 2: it has no input and no label, and has 'x': name them so"),
    ({"label": 1}, "missing_column: line 2: it has no input: name them so"),
    ({"input": [0] * 5, "label": 0, "id": 7},
     "unknown_column: line 2: 'id' is not read: leave it out, a sample has input and label"),
    ({"input": "abc", "label": 0}, "not_numbers: line 2: input must be a list of 5 numbers, not 'abc'"),
    ({"input": [1, 2], "label": 0}, "wrong_length: line 2: input has 2 numbers, the model reads 5: give as many"),
    ({"input": [1, 2, 3, 4, "5"], "label": 0}, "not_a_number: line 2: input holds '5', which is no number"),
    ({"input": [1, 2, 3, 4, None], "label": 0}, "not_a_number: line 2: input holds null, which is no number"),
    ({"input": [1, 2, 3, 4, True], "label": 0}, "not_a_number: line 2: input holds true, which is no number"),
    ({"input": [1, 2, 3, 4, math.nan], "label": 0},
     "not_finite: line 2: input holds nan: every number must be finite"),
    ({"input": [1, 2, 3, 4, -math.inf], "label": 0},
     "not_finite: line 2: input holds -inf: every number must be finite"),
    ({"input": [1, 2, 3, 4, 10**400], "label": 0},
     "not_finite: line 2: input holds a number of more than 256 bits: every number must be finite"),
    ({"input": [0] * 5, "label": 3}, "label_out_of_range: line 2: label must be a whole number from 0 to 2, not 3"),
    ({"input": [0] * 5, "label": -1}, "label_out_of_range: line 2: label must be a whole number from 0 to 2, not -1"),
    ({"input": [0] * 5, "label": 1.0}, "label_out_of_range: line 2: label must be a whole number from 0 to 2, not 1.0"),
    ({"input": [0] * 5, "label": True},
     "label_out_of_range: line 2: label must be a whole number from 0 to 2, not true"),
    ({"input": [0] * 5, "label": "1"}, "label_out_of_range: line 2: label must be a whole number from 0 to 2, not '1'"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "told"), BAD_LINES, ids=[told.split(":")[0] + f" {i}" for i, (_, told)
                                                           in enumerate(BAD_LINES)])  # fmt: skip
def test_a_bad_line_is_told_with_its_number(line, told: str, tmp_path: Path) -> None:
    text = line if isinstance(line, str) else json.dumps(line)
    assert faults(tmp_path, f"{GOOD}\n{text}\n{GOOD}\n") == [told]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (5, "not_a_text: line 1: text must be a text, not 5"),
        ("a", "too_short: line 1: text must have at least 2 tokens, one to begin with and one to foretell"),
        ("", "too_short: line 1: text must have at least 2 tokens, one to begin with and one to foretell"),
        ("abz", "unknown_character: line 1: text holds 'z', none of the model's characters"),
    ],
)
def test_a_bad_text_is_told_with_its_line(text, told: str, tmp_path: Path) -> None:
    assert faults(tmp_path, json.dumps({"text": text}) + "\n", DECODER) == [told]


def test_half_of_a_surrogate_pair_is_no_text(tmp_path: Path) -> None:
    by_bytes = {k: v for k, v in DECODER.items() if k != "characters"}
    assert faults(tmp_path, '{"text": "ab\\ud800"}\n', by_bytes) == [
        "not_utf8: line 1: text holds half of a surrogate pair, which is no character: remove it"
    ]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", ["missing_column: line 1: the header has no label: the first line names the columns"]),
        ("a,b\n", ["missing_column: line 1: the header has no label: the first line names the columns"]),
        ("a,a,label\n", ["unknown_column: line 1: the header names 'a' twice: once each"]),
        ("a,b,c,d,e,label\n", ["empty_dataset: it has no sample: give at least one"]),
        ("a,b,c,d,e,label\n1,2,3,4,5,0\n\n1,2,3,4,5\n1,2,3,4,x,0\n1,2,3,4,nan,0\n",
         ["empty_line: line 3: it is empty: remove it, each line is one sample",
          "wrong_length: line 4: it has 5 values and the header 6: write one a column",
          "not_a_number: line 5: input holds 'x', which is no number",
          "not_finite: line 6: input holds nan: every number must be finite"]),
        ("a,b,label\n1,2,0\n", ["wrong_length: line 2: input has 2 numbers, the model reads 5: give as many"]),
        ('a,b,c,d,e,label\n"1,2,3,4,5,0\n',
         ["bad_csv: line 2: it is no CSV (unexpected end of data): write it so, with a header"]),
        (b"a,b,c,d,e,label\n1,2,3,4,\xff,0\n", ["not_utf8: byte 24 of it is no UTF-8: save it as UTF-8"]),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_csv_is_told_with_its_line(content, told: list[str], tmp_path: Path) -> None:
    assert faults(tmp_path, content, name="d.csv") == told


def test_a_csv_for_texts_has_that_column_and_no_other(tmp_path: Path) -> None:
    assert faults(tmp_path, "text,id\nab,1\n", DECODER, "d.csv") == [
        "unknown_column: line 1: 'id' is not read: leave it out, a sample has text"
    ]
    assert faults(tmp_path, "id\n1\n", DECODER, "d.csv") == [
        "missing_column: line 1: the header has no text: the first line names the columns"
    ]


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ({"inputs": torch.ones(2, 5)}, ["missing_column: it has no labels: name them so"]),
        ({"inputs": torch.ones(2, 5), "labels": torch.ones(2, dtype=torch.int64), "ids": torch.ones(2)},
         ["unknown_column: 'ids' is not read: leave it out, a sample has inputs and labels"]),
        ({"inputs": torch.ones(2, 4), "labels": torch.ones(3)},
         ["wrong_shape: inputs: it is [2, 4] of F32; the model reads floats of shape [samples, 5]",
          "wrong_shape: labels: it is [3] of F32; there must be one integer a sample"]),
        ({"inputs": torch.tensor([[0, 0, 0, 0, math.nan], [0.0] * 5]), "labels": torch.tensor([0, 3])},
         ["not_finite: sample 0: inputs holds NaN or infinity: every number must be finite",
          "label_out_of_range: sample 1: label must be a whole number from 0 to 2, not 3"]),
        ({"inputs": torch.ones(0, 5), "labels": torch.ones(0, dtype=torch.int64)},
         ["empty_dataset: it has no sample: give at least one"]),
    ],
)  # fmt: skip
def test_what_is_wrong_with_tensors_is_told(named, told: list[str], tmp_path: Path) -> None:
    path = tensors(tmp_path / "d.safetensors", **named)
    found = refusal(samples_of, path, MLP)
    assert [f"{p.code}: {p.message}".replace("d.safetensors, ", "").replace("d.safetensors: ", "")
            for p in found.problems] == told  # fmt: skip


def test_an_empty_file_has_no_sample(tmp_path: Path) -> None:
    assert faults(tmp_path, "") == ["empty_dataset: it has no sample: give at least one"]


def test_all_faults_are_told_at_once_up_to_twenty_and_how_many_more(tmp_path: Path) -> None:
    told = faults(tmp_path, "\n" * 33)
    assert (len(told), told[19].split(":")[1], told[20]) == (21, " line 20", "more_problems: and 13 more in it")


def test_the_number_of_problems_counts_those_that_are_not_told_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text("\n" * 33)
    found = refusal(samples_of, path, MLP)
    assert str(found).startswith("33 problems: ")


def test_a_file_that_is_too_large_is_refused_with_the_limit_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.touch()
    os.truncate(path, reading.MAX_BYTES + 1)
    found = refusal(samples_of, path, MLP)
    assert (found.code, found.message) == (
        "too_large", "d.jsonl: it has 500000001 bytes, at most 500000000 are read: split it"
    )  # fmt: skip


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    found = refusal(samples_of, tmp_path / "d.jsonl", MLP)
    assert (found.code, found.message) == ("unreadable_input", "d.jsonl can't be read: No such file or directory")


def test_a_text_longer_than_other_readers_of_csv_take_is_read(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("text\n" + "ab" * 100_000 + "\n")
    assert len(samples_of(tmp_path / "d.csv", DECODER).tokens[0]) == 200_000
