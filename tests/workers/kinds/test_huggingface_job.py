"""Evaluations and inferences of models of Hugging Face, from the job's document to its events, against what the library
itself makes of each text alone."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from tests.workers.engines.evaluations import json_lines
from tests.workers.engines.huggingface import CONTEXT, classifier, encoder, labelled, language_model, said, texts
from tests.workers.kinds.builders import PARENTS, Job, written
from tests.workers.kinds.disturbed import on_devices
from tests.workers.kinds.test_evaluate_job import measured, refused, rows
from tests.workers.kinds.test_infer_job import manifest
from tests.workers.kinds.test_infer_job import rows as lines
from tests.workers.kinds.test_merge_job import asked_after
from workers.engines import huggingface

KINDS = pytest.mark.parametrize("kind", ["llama", "gpt2", "mistral", "bert", "bloom", "mamba"])
LIBRARY = f"transformers {transformers.__version__}"


def evaluation(directory: Path, data: list[dict[str, Any]], **params: Any) -> Job:
    json_lines(directory / "inputs" / "dataset" / "test.jsonl", data)
    named = dict(zip(("model", "dataset"), PARENTS, strict=True))
    return written(directory, "evaluate", {"model": "net", "dataset": "tests", "batch_size": 4, **params}, named)


def inference(directory: Path, data: list[dict[str, Any]], **params: Any) -> Job:
    json_lines(directory / "inputs" / "input" / "rows.jsonl", data)
    named = dict(zip(("model", "input"), PARENTS, strict=True))
    return written(directory, "infer", {"model": "net", "input": "rows", "batch_size": 4, **params}, named)


def loaded(directory: Path, auto: Any = transformers.AutoModelForCausalLM) -> tuple[Any, Any]:
    return (auto.from_pretrained(directory).eval(), transformers.AutoTokenizer.from_pretrained(directory))


def nll_alone(model: Any, tokens: list[int], window: int) -> float:
    """The library's own mean loss of each window, times its tokens."""
    total = 0.0
    for start in range(0, len(tokens) - 1, window):
        each = torch.tensor([tokens[start : start + window + 1]])
        logits = model(input_ids=each[:, :-1]).logits[0].double()
        total += float(torch.nn.functional.cross_entropy(logits, each[0, 1:], reduction="sum"))
    return total


@KINDS
def test_a_language_model_is_as_perplexed_as_the_library_says(kind: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(huggingface, "WINDOW", 16)
    source = language_model(tmp_path / "inputs" / "model", kind, begins=kind == "llama")
    job = evaluation(tmp_path, texts(12))
    assert job.run() == 0
    model, words = loaded(source)
    found = rows(job)
    with torch.no_grad():
        for row, given in zip(found, texts(12), strict=True):
            tokens = words(given["text"])["input_ids"]
            assert row["tokens"] == len(tokens) - 1
            assert row["nll"] == pytest.approx(nll_alone(model, tokens, 16), rel=1e-4)
            first = "" if kind == "llama" else words.decode(tokens[:1])
            assert row["bytes"] == len(given["text"].encode()) - len(first.encode())
    nll, tokens, size = (math.fsum(row[name] for row in found) for name in ("nll", "tokens", "bytes"))
    assert measured(job)["metrics"] == {
        "perplexity": pytest.approx(math.exp(nll / tokens), rel=1e-12),
        "bits_per_byte": pytest.approx(nll / math.log(2) / size, rel=1e-12), "loss": nll / tokens,
    }  # fmt: skip
    assert measured(job)["engine_version"] == f"2 with {LIBRARY}"
    assert measured(job)["architecture"] == type(model).__name__


def alone(model: Any, tokens: list[int], new: int, context: int) -> list[int]:
    """The likeliest tokens one after the other, each from all that the model sees, without a cache."""
    seen, made = list(tokens)[-context:], []
    for _ in range(new):
        if len(seen) > context:
            seen = seen[len(seen) - (context + 1) // 2 :]
        made.append(int(model(input_ids=torch.tensor([seen])).logits[0, -1].argmax()))
        seen.append(made[-1])
    return made


@KINDS
def test_what_follows_a_text_is_what_the_library_finds_likeliest_for_it_alone(kind: str, tmp_path: Path) -> None:
    source = language_model(tmp_path / "inputs" / "model", kind)
    job = inference(tmp_path, texts(10), max_new_tokens=30, logprobs=True)
    assert job.run() == 0
    model, words = loaded(source)
    context = CONTEXT if kind not in ("bloom", "mamba") else 2048
    with torch.no_grad():
        for row, given in zip(lines(job), texts(10), strict=True):
            tokens = words(given["text"])["input_ids"]
            assert row["tokens"] == alone(model, tokens, 30, context)
            assert (
                row["text"] == words.decode([*tokens, *row["tokens"]], skip_special_tokens=True)[len(given["text"]) :]
            )
            assert row["digest"] == hashlib.sha256(given["text"].encode()).hexdigest()
            assert len(row["input_logprobs"]) == len(tokens) - 1
            first = model(input_ids=torch.tensor([tokens[-context:]])).logits[0, -1].log_softmax(-1)
            assert row["logprobs"][0] == pytest.approx(float(first.max()), abs=1e-4)
    assert manifest(job)["counts"] == {"rows": 10, "bad_rows": 0, "not_finite": 0, "new_tokens": 300}


def test_a_text_is_over_with_the_token_that_ends_it_and_the_others_go_on(tmp_path: Path) -> None:
    source = language_model(tmp_path / "inputs" / "model")
    job = inference(tmp_path, texts(10), max_new_tokens=12)
    assert job.run() == 0
    endless = [row["tokens"] for row in lines(job)]
    stop = endless[0][4]
    (source / "generation_config.json").write_text(json.dumps({"eos_token_id": [stop]}))
    again = job.next_attempt()
    shutil.rmtree(job.checkpoint, ignore_errors=True)
    assert again.run() == 0
    ended = [row["tokens"] for row in lines(again)]
    assert ended == [t[: t.index(stop) + 1] if stop in t else t for t in endless]
    assert len({len(tokens) for tokens in ended}) > 1


@pytest.mark.parametrize("kind", ["bert", "roberta", "llama"])
def test_classes_of_texts_are_those_that_the_library_tells(kind: str, tmp_path: Path) -> None:
    source = classifier(tmp_path / "inputs" / "model", kind)
    job = evaluation(tmp_path, labelled(12))
    assert job.run() == 0
    model, words = loaded(source, transformers.AutoModelForSequenceClassification)
    most = CONTEXT - 2 if kind == "roberta" else CONTEXT
    with torch.no_grad():
        for row, given in zip(rows(job), labelled(12), strict=True):
            whole = words(given["text"])["input_ids"]
            tokens = words(given["text"], truncation=True, max_length=most)["input_ids"]
            likely = model(input_ids=torch.tensor([tokens])).logits[0].log_softmax(-1)
            assert (row["predicted"], row.get("cut", False)) == (int(likely.argmax()), len(whole) > most)
            assert row["nll"] == pytest.approx(-float(likely[given["label"]]), rel=1e-3, abs=1e-5)
    right = sum(row["correct"] for row in rows(job))
    assert measured(job)["metrics"]["accuracy"] == right / 12
    assert {row.get("cut", False) for row in rows(job)} == {True, False}


def test_an_inference_tells_the_class_of_each_text_and_how_likely_each_is(tmp_path: Path, capsys) -> None:
    source = classifier(tmp_path / "inputs" / "model")
    given = [*labelled(9), {"text": 3, "label": 0}]
    job = inference(tmp_path, given, max_bad_rows=1)
    assert job.run() == 0
    model, words = loaded(source, transformers.AutoModelForSequenceClassification)
    with torch.no_grad():
        for row, each in zip(lines(job)[:9], given, strict=False):
            tokens = words(each["text"], truncation=True, max_length=CONTEXT)["input_ids"]
            likely = model(input_ids=torch.tensor([tokens])).logits[0].softmax(-1)
            assert row["label"] == int(likely.argmax())
            assert row["probabilities"] == pytest.approx(likely.tolist(), abs=1e-4)
    assert lines(job)[9] == {
        "index": 9,
        "error": {"code": "not_a_text", "message": "line 10: text must be a text, not 3"},
    }
    cut = sum(row.get("cut", False) for row in lines(job))
    assert f"of {cut} row{'s' * (cut > 1)} only the first {CONTEXT} tokens are read" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["bert", "roberta", "word pieces"])
def test_a_text_is_embedded_as_the_mean_of_what_the_library_makes_of_its_tokens(kind: str, tmp_path: Path) -> None:
    source = encoder(tmp_path / "inputs" / "model", "roberta" if kind == "roberta" else "bert")
    if kind == "word pieces":  # as the first BERTs have them, without a tokenizer.json
        (source / "tokenizer.json").unlink()
        (source / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer", "do_lower_case": true}')
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "river", "bridge", "a", "the", "word", "##s"]
        (source / "vocab.txt").write_text("\n".join(pieces) + "\n")
    job = inference(tmp_path, labelled(10))
    assert job.run() == 0
    model, words = loaded(source, transformers.AutoModel)
    most = CONTEXT - 2 if kind == "roberta" else CONTEXT
    assert (kind != "word pieces") or words("hello rivers")["input_ids"] == [2, 5, 6, 11, 3]
    with torch.no_grad():
        for row, given in zip(lines(job), texts(10), strict=True):
            tokens = words(given["text"], truncation=True, max_length=most)["input_ids"]
            mean = model(input_ids=torch.tensor([tokens])).last_hidden_state[0].double().mean(0)
            assert row["embedding"] == pytest.approx((mean / mean.norm()).tolist(), abs=1e-5)
            assert math.fsum(x * x for x in row["embedding"]) == pytest.approx(1, abs=1e-4)


def test_a_model_that_embeds_has_no_metrics_and_another_pooling_is_refused(tmp_path: Path, capsys) -> None:
    source = encoder(tmp_path / "inputs" / "model")
    _, event, _ = refused(evaluation(tmp_path, texts(3)), capsys)
    assert (event["code"], "such as BertModel, have no metric: run it over rows" in event["message"]) == (
        "mismatch",
        True,
    )
    (source / "1_Pooling").mkdir()
    (source / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": false}')
    _, event, _ = refused(inference(tmp_path, texts(3)), capsys)
    assert (event["code"], "asks for another vector than the mean" in event["message"]) == ("unsupported_config", True)
    (source / "1_Pooling" / "config.json").unlink()
    _, event, _ = refused(inference(tmp_path, texts(3), seed=3), capsys)
    assert event["message"].endswith(
        "of the architecture BertModel: models that embed texts give a vector; leave it out"
    )


def test_a_csv_has_columns_text_and_label(tmp_path: Path) -> None:
    classifier(tmp_path / "inputs" / "model")
    job = evaluation(tmp_path, labelled(3))
    assert job.run() == 0
    (tmp_path / "inputs" / "dataset" / "test.jsonl").unlink()
    table = "text,label\n" + "".join(f'"{row["text"]}",{row["label"]}\n' for row in labelled(3))
    (tmp_path / "inputs" / "dataset" / "test.csv").write_text(table)
    shutil.rmtree(job.checkpoint, ignore_errors=True)
    again = job.next_attempt()
    assert again.run() == 0
    assert again.made == job.made


def made_of(directory: Path, which: str) -> Job:
    if which == "classes":
        classifier(directory / "inputs" / "model")
        return evaluation(directory, labelled(22))
    if which == "vectors":
        encoder(directory / "inputs" / "model")
        return inference(directory, texts(22))
    language_model(directory / "inputs" / "model")
    if which == "perplexity":
        return evaluation(directory, texts(22))
    return inference(directory, texts(22), max_new_tokens=7, temperature=0.9, seed=5, logprobs=True)


@pytest.mark.parametrize("which", ["classes", "vectors", "perplexity", "generation"])
def test_stopped_after_every_batch_and_on_several_devices_it_leaves_the_same_bytes(which, tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    undisturbed = made_of(tmp_path / "b", which)
    on_devices(monkeypatch, 1)
    assert undisturbed.run() == 0
    on_devices(monkeypatch, 2)
    several = undisturbed.next_attempt(EMEP_RESUME="0", EMEP_CHECKPOINT_DIR=str(tmp_path / "none"))
    assert (several.run(), several.made) == (0, undisturbed.made)
    job, codes, devices = made_of(tmp_path / "a", which), [], itertools.cycle([1, 2])
    while not codes or codes[-1] == 85:
        on_devices(monkeypatch, next(devices))
        codes.append(job.run(asked_after(1)))
        job = job.next_attempt() if codes[-1] == 85 else job
    assert (len(codes) > 2, codes[-1], job.made) == (True, 0, undisturbed.made)


def test_a_node_without_the_extra_says_what_to_install(tmp_path: Path, monkeypatch, capsys) -> None:
    language_model(tmp_path / "inputs" / "model")
    job = evaluation(tmp_path, texts(3))
    monkeypatch.setitem(sys.modules, "transformers", None)
    code, event, _ = refused(job, capsys)
    assert (code, event["code"], event["details"]) == (
        2, "missing_extra", {"field": "params.model", "install": "requirements/hf.txt"},
    )  # fmt: skip
    assert (
        "the Python of this node has no transformers: install requirements/hf.txt there (pip install -r"
        in event["message"]
    )


def without(name: str):
    return lambda at: (at / name).unlink()


def tensors_changed(at: Path, change) -> None:
    from safetensors.torch import load_file, save_file

    held = load_file(at / "model.safetensors")
    change(held)
    save_file(held, at / "model.safetensors", {"format": "pt"})


def spoiled(name: str, tensor: Any):
    return lambda at: tensors_changed(
        at, lambda held: held.update({name: tensor}) if tensor is not None else held.pop(name)
    )


NORM = "model.norm.weight"


def test_a_model_that_a_device_has_no_room_for_says_how_much_it_takes(tmp_path: Path, monkeypatch, capsys) -> None:
    def full(*given: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    language_model(tmp_path / "inputs" / "model")
    job = evaluation(tmp_path, texts(3))
    monkeypatch.setattr(transformers.LlamaForCausalLM, "to", full)
    code, event, _ = refused(job, capsys)
    assert (code, event["code"]) == (2, "out_of_memory")
    size = event["details"]["bytes"]
    assert f"model takes {size} bytes in float32, more than cpu has free: ask for GPUs with more" in event["message"]


@pytest.mark.parametrize(
    ("spoil", "code", "words"),
    [
        (without("model.safetensors"), "no_weights", "has neither model.safetensors nor model"),
        (lambda at: (without("tokenizer.json")(at), without("tokenizer_config.json")(at)), "no_tokenizer",
         "'model' has no tokenizer beside its weights: store it with tokenizer.json"),
        (lambda at: (at / "tokenizer.json").write_text("{"), "unreadable_tokenizer",
         "tokenizer of model can't be read"),
        (lambda at: (at / "adapter_config.json").write_text("{}"), "unsupported_format", "holds an adapter"),
        (lambda at: said(at, auto_map={"AutoModelForCausalLM": "x.X"}), "custom_code",
         "names code of its own (auto_map)"),
        (lambda at: (at / "tokenizer_config.json").write_text('{"auto_map": {"AutoTokenizer": ["x.X", null]}}'),
         "custom_code", "tokenizer_config.json of 'model' names code of its own (auto_map), which is never run: run a"),
        (lambda at: said(at, quantization_config={"bits": 4}), "unsupported_dtype", "it is quantized"),
        (lambda at: said(at, rope_parameters={"rope_type": "dynamic", "factor": 2.0}), "unsupported_config",
         "rope_parameters is dynamic"),
        (lambda at: said(at, architectures=["LlamaModel"]), "unknown_architecture",
         "ends in ForCausalLM, LMHeadModel, ForSequenceClass"),
        (lambda at: said(at, architectures=[]), "unknown_architecture", "must be a list of one name"),
        (lambda at: said(at, model_type=None), "required", "model_type must name the library's type of model"),
        (lambda at: said(at, model_type="lama"), "unreadable_model", "model can't be built as LlamaForCausalLM"),
        (lambda at: said(at, num_hidden_layers=3), "missing_tensor",
         "'model' lacks model.layers.2.input_layernorm.weight"),
        (lambda at: said(at, num_hidden_layers=1), "unknown_tensor",
         "'model' has model.layers.1.input_layernorm.weight"),
        (spoiled(NORM, torch.ones(8)), "shape_mismatch", f"has {NORM} in another shape than LlamaForCausalLM"),
        (spoiled(NORM, None), "missing_tensor", f"lacks {NORM}, which LlamaForCausalLM has: give a model"),
        (spoiled(NORM, torch.full((16,), math.nan)), "nonfinite_input", f"no finite numbers in '{NORM}' (16)"),
        (lambda at: language_model(at, vocab_size=100), "mismatch",
         "and the model 100 from 0: give the tokenizer that"),
        (lambda at: language_model(at, "bert", is_decoder=False), "not_causal",
         "sees the tokens that it foretells: give a"),
        (lambda at: said(classifier(at), problem_type="multi_label_classification"), "unsupported_config", "one label"),
        (lambda at: classifier(at, num_labels=1), "out_of_range", "2 to 1000000 classes apart"),
    ],
)  # fmt: skip
def test_what_can_be_known_is_refused_before_the_first_sample(spoil, code, words, tmp_path: Path, capsys) -> None:
    source = language_model(tmp_path / "inputs" / "model")
    spoil(source)
    job = evaluation(tmp_path, texts(3))
    found, event, _ = refused(job, capsys)
    first = event["details"].get("problems", [event])[0]
    assert (found, event["type"], first["code"]) == (2, "error", code), event
    assert words in event["message"]
    assert (job.made, [e["type"] for e in job.events]) == ({}, ["error"])
