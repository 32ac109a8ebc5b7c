"""Rows are the same to the byte for every batch size and number of devices, and wherever a run was cut off."""

from __future__ import annotations

import itertools
import json
import math
import threading
from pathlib import Path

import pytest
import torch

from tests.workers.engines.evaluations import (
    CPU,
    DECODER,
    MLP,
    evaluation,
    family_model,
    json_lines,
    labelled,
    lines_of,
    samples_of,
)
from tests.workers.engines.test_models_of_families import decoder_by_hand, mlp_by_hand, random_weights, relu, wide
from workers.engines.evaluating import Evaluation, kept
from workers.engines.in_batches import compute
from workers.engines.models import load
from workers.engines.results import Results
from workers.engines.sources import open_model

BOTH = pytest.mark.parametrize("config", [MLP, DECODER], ids=["mlp", "decoder"])
COUNT = 50


def log_softmax(logits):
    return logits - logits.max() - math.log(sum(math.exp(x - logits.max()) for x in logits))


@BOTH
def test_batch_size_and_number_of_devices_change_no_byte(config, tmp_path: Path) -> None:
    found = {
        (size, devices): lines_of(evaluation(tmp_path, config, COUNT, size=size, devices=devices),
                                  tmp_path / f"{size}-{devices}")
        for size, devices in [(1, 1), (4, 1), (4, 2), (4, 4), (7, 3), (64, 1), (64, 4)]
    }  # fmt: skip
    first = found[1, 1]
    assert len(first) == COUNT
    assert [key for key, lines in found.items() if lines != first] == []


@BOTH
def test_stopped_after_every_batch_and_gone_on_with_another_number_of_devices_it_has_the_same_rows(config, tmp_path):
    undisturbed = lines_of(evaluation(tmp_path, config, COUNT), tmp_path / "undisturbed")
    runs, devices = 0, itertools.cycle([1, 2, 4])
    while True:
        results = Results(tmp_path / "steps", "plan")
        begun = results.restore()
        taken = itertools.count()
        made = evaluation(tmp_path, config, COUNT, devices=next(devices))
        complete = compute(made, results, should_stop=lambda taken=taken: next(taken) >= 1)
        results.save()
        runs += 1
        if complete:
            break
        assert len(results) > begun
    assert list(results.lines()) == undisturbed
    assert runs > 2


def test_a_classifiers_rows_are_those_of_the_formula(tmp_path: Path) -> None:
    made = evaluation(tmp_path, MLP, 20)
    weights = wide(random_weights(MLP))
    for line, x, label in zip(lines_of(made, tmp_path / "r"), made.samples.inputs, made.samples.labels, strict=True):
        row = json.loads(line)
        logits = mlp_by_hand(weights, MLP, x.numpy(), relu)
        assert (row["label"], row["predicted"]) == (int(label), int(logits.argmax()))
        assert row["correct"] is (row["label"] == row["predicted"])
        assert row["nll"] == pytest.approx(-log_softmax(logits)[int(label)], rel=1e-7)


def test_a_texts_loss_is_that_of_all_its_tokens_but_the_first_in_windows_of_the_context(tmp_path: Path) -> None:
    made = evaluation(tmp_path, DECODER, 12)
    weights, context = wide(random_weights(DECODER)), DECODER["context"]
    for line, tokens in zip(lines_of(made, tmp_path / "r"), made.samples.tokens, strict=True):
        row, tokens = json.loads(line), tokens.tolist()
        nll = 0.0
        for start in range(0, len(tokens) - 1, context):
            seen = tokens[start : start + context]
            logits = decoder_by_hand(weights, DECODER, seen)
            targets = tokens[start + 1 : start + 1 + context]
            nll -= sum(log_softmax(logits[i])[target] for i, target in enumerate(targets))
        assert (row["tokens"], row["nll"]) == (len(tokens) - 1, pytest.approx(nll, rel=1e-7))


def test_the_bytes_of_a_text_are_those_of_the_tokens_that_are_foretold(tmp_path: Path) -> None:
    file = json_lines(tmp_path / "d.jsonl", [{"text": "öaö"}, {"text": "ab"}])
    by_bytes = {**{k: v for k, v in DECODER.items() if k != "characters"}}
    assert samples_of(file, DECODER).sizes == (3, 1)
    assert (samples_of(file, by_bytes).sizes, [len(t) for t in samples_of(file, by_bytes).tokens]) == ((4, 1), [5, 2])


def test_of_classes_that_are_equally_likely_the_lowest_is_told(tmp_path: Path) -> None:
    flat = family_model(tmp_path / "m", MLP, _2__weight=torch.zeros(3, 7), _2__bias=torch.tensor([0.0, 1.0, 1.0]))
    data = samples_of(json_lines(tmp_path / "d.jsonl", [{"input": [0, 0, 0, 0, 0], "label": 2}]), MLP)
    made = Evaluation(load(open_model(flat, "m"), MLP, [CPU]), data, 8)
    (line,) = lines_of(made, tmp_path / "r")
    assert json.loads(line) == {
        "index": 0, "label": 2, "predicted": 1, "correct": False, "nll": kept(math.log(2 + math.exp(-1)))
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_two_classes_that_are_always_equally_likely_are_one_to_every_batch_size(seed: int, tmp_path: Path) -> None:
    config = {"model_type": "mlp", "layer_sizes": [11, 53, 7], "activation": "relu"}
    head = random_weights(config, seed)["2.weight"]
    head[6] = head[0]
    source = family_model(tmp_path / "m", config, seed, _2__weight=head, _2__bias=torch.zeros(7))
    model = load(open_model(source, "m"), config, [CPU])
    data = samples_of(json_lines(tmp_path / "d.jsonl", labelled(64, seed, 11, 7)), config)
    found = [lines_of(Evaluation(model, data, size), tmp_path / f"{size}") for size in (1, 2, 3, 5, 32, 64)]
    told = [[json.loads(line)["predicted"] for line in lines] for lines in found]
    assert (told == [told[0]] * 6, 6 in told[0]) == (True, False)


def test_a_sample_that_gives_no_number_is_a_row_of_its_own_and_spoils_no_other(tmp_path: Path) -> None:
    huge = family_model(tmp_path / "m", MLP, _0__weight=torch.full((7, 5), 1e308, dtype=torch.float64))
    rows = [{"input": [0.1] * 5, "label": 0}, {"input": [1e9] * 5, "label": 1}, {"input": [0.0] * 5, "label": 2}]
    made = Evaluation(
        load(open_model(huge, "m"), MLP, [CPU]), samples_of(json_lines(tmp_path / "d.jsonl", rows), MLP), 3
    )
    found = [json.loads(line) for line in lines_of(made, tmp_path / "r")]
    assert found[1] == {"index": 1, "label": 1, "predicted": None, "correct": False, "nll": None}
    assert found[2]["nll"] is not None


@pytest.mark.parametrize(("value", "told"), [(0.123456789123, 0.12345679), (-0.0, 0.0), (1e-300, 1e-300), (0.5, 0.5)])
def test_a_loss_is_kept_in_eight_digits(value: float, told: float) -> None:
    assert math.copysign(1, kept(value)) == 1.0
    assert kept(value) == told


def test_rows_are_appended_in_order_though_a_later_batch_is_done_first(tmp_path: Path) -> None:
    made = evaluation(tmp_path, MLP, 8, size=2, devices=2)
    second_done = threading.Event()
    plain = Evaluation.rows

    class Slow(Evaluation):
        def rows(self, first, last, module, must_stop):
            if first == 0:
                assert second_done.wait(30)
            found = plain(self, first, last, module, must_stop)
            if first == 2:
                second_done.set()
            return found

    slow = Slow(made.model, made.samples, made.batch_size)
    assert [json.loads(line)["index"] for line in lines_of(slow, tmp_path / "r")] == list(range(8))


@pytest.mark.parametrize("devices", [1, 3])
def test_an_exception_in_a_batch_is_raised_and_what_was_done_before_it_stays(devices: int, tmp_path: Path) -> None:
    made = evaluation(tmp_path, MLP, 40, size=4, devices=devices)
    plain = Evaluation.rows

    class Broken(Evaluation):
        def rows(self, first, last, module, must_stop):
            if first == 20:
                raise MemoryError("batch 5")
            return plain(self, first, last, module, must_stop)

    results = Results(tmp_path / "r", "plan")
    results.restore()
    with pytest.raises(MemoryError, match="batch 5"):
        compute(Broken(made.model, made.samples, 4), results)
    assert len(results) <= 20
    assert list(results.lines()) == lines_of(made, tmp_path / "whole")[: len(results)]
    if devices == 1:
        assert len(results) == 20


def test_without_time_left_a_batch_of_long_texts_is_given_up_in_its_middle(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("workers.engines.foretelling.LOGITS", 1)  # a window at a time
    made = evaluation(tmp_path, DECODER, 8, size=4)
    results = Results(tmp_path / "r", "plan")
    results.restore()
    looks = itertools.count()
    windows = sum(-(-(len(t) - 1) // 6) for t in made.samples.tokens[:4])
    assert compute(made, results, must_stop=lambda: next(looks) == windows + 1) is False
    assert len(results) == 4


@BOTH
def test_so_many_logits_at_once_as_there_is_room_for_change_no_row(config, tmp_path: Path, monkeypatch) -> None:
    whole = lines_of(evaluation(tmp_path, config, COUNT, size=16), tmp_path / "whole")
    monkeypatch.setattr("workers.engines.foretelling.LOGITS", 100)
    assert lines_of(evaluation(tmp_path, config, COUNT, size=16), tmp_path / "few") == whole
