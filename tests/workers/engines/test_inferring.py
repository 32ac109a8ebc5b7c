"""Lines are the same to the byte for every batch size and number of devices, and wherever a run was cut off; what they
say is what arithmetic written anew says."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.workers.engines.evaluations import CPU, DECODER, MLP, family_model, given_of, inference, json_lines, lines_of
from tests.workers.engines.test_evaluating import log_softmax
from tests.workers.engines.test_models_of_families import decoder_by_hand, mlp_by_hand, random_weights, relu, wide
from workers.engines.in_batches import compute
from workers.engines.inferring import Inference, rounded
from workers.engines.models import load
from workers.engines.results import Results
from workers.engines.sources import open_model
from workers.infer_params import Generation

BOTH = pytest.mark.parametrize("config", [MLP, DECODER], ids=["mlp", "decoder"])
COUNT = 50


def rows(made, directory: Path) -> list[dict]:
    return [json.loads(line) for line in lines_of(made, directory)]


@BOTH
def test_batch_size_and_number_of_devices_change_no_byte(config, tmp_path: Path) -> None:
    found = {
        (size, devices): lines_of(inference(tmp_path, config, COUNT, size=size, devices=devices),
                                  tmp_path / f"{size}-{devices}")
        for size, devices in [(1, 1), (4, 1), (4, 2), (4, 4), (7, 3), (64, 1), (64, 4)]
    }  # fmt: skip
    first = found[1, 1]
    assert len(first) == COUNT
    assert [key for key, lines in found.items() if lines != first] == []


@BOTH
def test_stopped_after_every_batch_and_gone_on_with_another_number_of_devices_it_has_the_same_lines(config, tmp_path):
    undisturbed = lines_of(inference(tmp_path, config, COUNT), tmp_path / "undisturbed")
    runs, devices, complete = 0, itertools.cycle([1, 2, 4]), False
    while not complete:
        results = Results(tmp_path / "steps", "plan")
        begun, taken = results.restore(), itertools.count()
        made = inference(tmp_path, config, COUNT, devices=next(devices))
        complete = compute(made, results, should_stop=lambda taken=taken: next(taken) >= 1)
        results.save()
        runs += 1
        assert len(results) > begun
    assert list(results.lines()) == undisturbed
    assert runs > 2


def test_a_classifier_tells_the_label_and_how_likely_each_is(tmp_path: Path) -> None:
    made = inference(tmp_path, MLP, 20)
    weights = wide(random_weights(MLP))
    for index, (row, x) in enumerate(zip(rows(made, tmp_path / "r"), made.given.inputs, strict=True)):
        logits = mlp_by_hand(weights, MLP, x.numpy(), relu)
        likely = [round(math.exp(each), 6) for each in log_softmax(logits)]
        assert row == {"index": index, "digest": made.given.digest(index), "label": int(logits.argmax()),
                       "probabilities": pytest.approx(likely, abs=1.1e-6)}  # fmt: skip


def uniforms(seed: int, row: int, count: int) -> list[float]:
    """The numbers that the row's tokens are drawn by, as the generator's authors and NumPy define them."""
    key = hashlib.sha256(f"{seed}\0row\0{row}".encode()).digest()[:16]
    words = np.random.Philox(key=int.from_bytes(key, "little")).random_raw(count)
    return [(int(word) >> 11) * 2.0**-53 for word in words]


def by_hand(weights, config, tokens: list[int], ask: Generation, row: int) -> list[tuple[int, float]]:
    """Each token that follows with its log-probability; all that the model sees is read anew for each."""
    context, found, start = config["context"], [], max(0, len(tokens) - config["context"])
    for u in uniforms(ask.seed, row, ask.tokens):
        if len(tokens) - start > context:
            start = len(tokens) - math.ceil(context / 2)
        logits = decoder_by_hand(weights, config, tokens[start:])[-1]
        token = int(logits.argmax())
        if ask.temperature:
            share = np.exp(log_softmax(logits / ask.temperature))
            token = int(np.searchsorted(np.cumsum(share), u, side="right"))
        found.append((token, log_softmax(logits)[token]))
        tokens = [*tokens, token]
    return found


@pytest.mark.parametrize("temperature", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("context", [1, 2, 6, 7])
def test_a_language_model_goes_on_as_the_formula_says_and_lets_the_older_half_go(context, temperature, tmp_path):
    config = {**DECODER, "context": context}
    made = inference(tmp_path, config, 12, tokens=17, temperature=temperature)
    weights = wide(random_weights(config))
    seen = set()
    for index, row in enumerate(rows(made, tmp_path / "r")):
        wanted = by_hand(weights, config, made.given.tokens[index].tolist(), made.ask, index)
        assert row["tokens"] == [token for token, _ in wanted]
        assert row["text"] == "".join(config["characters"][token] for token in row["tokens"])
        assert row["logprobs"] == pytest.approx([likely for _, likely in wanted], abs=1.1e-6)
        seen |= set(row["tokens"])
    assert len(seen) > (2 if temperature else 0)


def test_what_is_drawn_does_not_depend_on_how_many_numbers_are_drawn_at_a_time(tmp_path: Path, monkeypatch) -> None:
    made = inference(tmp_path, DECODER, 12, tokens=17)
    whole = lines_of(made, tmp_path / "whole")
    monkeypatch.setattr("workers.engines.generating.DRAWN_AHEAD", 5)
    assert lines_of(made, tmp_path / "r") == whole


def test_the_tokens_of_a_text_are_as_likely_as_an_evaluation_finds_them(tmp_path: Path) -> None:
    made = inference(tmp_path, DECODER, 12, tokens=0)
    weights, context = wide(random_weights(DECODER)), DECODER["context"]
    for row, tokens in zip(rows(made, tmp_path / "r"), made.given.tokens, strict=True):
        tokens, wanted = tokens.tolist(), []
        for start in range(0, len(tokens) - 1, context):
            logits = decoder_by_hand(weights, DECODER, tokens[start : start + context])
            targets = tokens[start + 1 : start + 1 + context]
            wanted += [log_softmax(logits[i])[target] for i, target in enumerate(targets)]
        assert list(row) == ["index", "digest", "input_logprobs"]
        assert row["input_logprobs"] == pytest.approx(wanted, abs=1.1e-6)


def test_without_logprobs_none_are_told(tmp_path: Path) -> None:
    (first, *_) = rows(inference(tmp_path, DECODER, 3, logprobs=False), tmp_path / "r")
    assert list(first) == ["index", "digest", "text", "tokens"]


def test_another_seed_draws_others_and_without_a_temperature_none_is_drawn(tmp_path: Path) -> None:
    def told(name: str, **ask) -> list[list[int]]:
        return [row["tokens"] for row in rows(inference(tmp_path, DECODER, 20, **ask), tmp_path / name)]

    assert told("a", seed=1) == told("b", seed=1) != told("c", seed=2)
    assert told("d", temperature=0.0, seed=1) == told("e", temperature=0.0, seed=2) == told("f", temperature=1e-300)


def test_drawn_tokens_are_as_frequent_as_they_are_likely(tmp_path: Path) -> None:
    count, shares = 4000, np.array([0.5, 0.25, 0.125, 0.0625, 0.0625, 0.0])
    zero = {name: torch.zeros_like(t) for name, t in random_weights(DECODER).items()}
    bias = zero["norm.bias"].clone()
    bias[0] = 1.0
    head = zero["head.weight"].clone()
    head[:, 0] = torch.tensor(np.log(np.maximum(shares, 1e-30)))
    changed = {**zero, "norm.bias": bias, "head.weight": head}
    source = family_model(tmp_path / "m", DECODER, **{name.replace(".", "__"): t for name, t in changed.items()})
    given = given_of(json_lines(tmp_path / "d.jsonl", [{"text": "a"}] * count), DECODER)
    made = Inference(load(open_model(source, "m"), DECODER, [CPU]), given, Generation(1, 1.0, 0, logprobs=False), 512)
    found = np.bincount([row["tokens"][0] for row in rows(made, tmp_path / "r")], minlength=6) / count
    assert found == pytest.approx(shares, abs=4 * math.sqrt(0.25 / count))
    assert found[5] == 0


def test_a_row_without_finite_numbers_is_a_line_of_its_own_and_spoils_no_other(tmp_path: Path) -> None:
    huge = family_model(tmp_path / "m", MLP, _0__weight=torch.full((7, 5), 1e308, dtype=torch.float64))
    path = json_lines(tmp_path / "d.jsonl", [{"input": [x] * 5} for x in (0.1, 1e9, 0.0)])
    made = Inference(load(open_model(huge, "m"), MLP, [CPU]), given_of(path, MLP), Generation(1, 0, 0, False), 3)
    found = rows(made, tmp_path / "r")
    assert (found[1]["label"], found[1]["probabilities"]) == (None, None)
    assert found[2]["label"] is not None


def test_a_language_model_that_gives_no_number_stops_there_and_says_nothing(tmp_path: Path) -> None:
    embed = random_weights(DECODER)["embed.weight"].double()
    embed[3] = 1e308
    source = family_model(tmp_path / "m", DECODER, embed__weight=embed)
    path = json_lines(tmp_path / "d.jsonl", [{"text": "ab"}, {"text": "ad"}, {"text": "ba"}])
    ask = Generation(3, 0.0, 0, logprobs=True)
    made = Inference(load(open_model(source, "m"), DECODER, [CPU]), given_of(path, DECODER), ask, 3)
    found = rows(made, tmp_path / "r")
    assert (found[1]["text"], found[1]["tokens"], found[1]["logprobs"]) == (None, None, None)
    assert all(row["text"] is not None and len(row["tokens"]) == 3 for row in (found[0], found[2]))


@BOTH
def test_a_row_that_could_not_be_read_says_why_and_changes_no_other(config, tmp_path: Path) -> None:
    made = inference(tmp_path, config, 6)
    whole = rows(made, tmp_path / "whole")
    lines = (tmp_path / "data.jsonl").read_text().splitlines(keepends=True)
    lines[2] = "rubbish\n"
    (tmp_path / "data.jsonl").write_text("".join(lines))
    given = given_of(tmp_path / "data.jsonl", config, spared=1)
    found = rows(Inference(made.model, given, made.ask, 4), tmp_path / "r")
    error = found[2].pop("error")
    assert (found.pop(2), error["code"]) == ({"index": 2}, "bad_json")
    assert error["message"].startswith("line 3: it is no JSON")
    assert found == [row for row in whole if row["index"] != 2]


def test_without_time_left_a_batch_is_given_up_in_its_middle(tmp_path: Path) -> None:
    made = inference(tmp_path, DECODER, 8, tokens=9, logprobs=False)
    results, looks = Results(tmp_path / "r", "plan"), itertools.count()
    results.restore()
    assert compute(made, results, must_stop=lambda: next(looks) == 9 + 4) is False
    assert len(results) == 4


@pytest.mark.parametrize(("value", "told"), [(0.1234567, 0.123457), (-1e-9, 0.0), (math.nan, None), (-math.inf, None)])
def test_a_number_is_kept_to_six_decimals(value: float, told: float | None) -> None:
    assert rounded(value) == told
    assert told is None or math.copysign(1, rounded(value)) == 1.0
