"""Data sets of tasks as lm-eval has them: YAML with the data beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

QUESTIONS = [{"q": f"a bridge {n} of words", "label": n % 3, "text": f"river {n} words"} for n in range(7)]
CHOICES: dict[str, Any] = {
    "task": "rivers", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "q.jsonl", "train": "q.jsonl"}},
    "test_split": "test", "fewshot_split": "train", "num_fewshot": 1, "output_type": "multiple_choice",
    "doc_to_text": "{{q}}", "doc_to_choice": ["a", "bridge over", "river"], "doc_to_target": "label",
    "metric_list": [{"metric": "acc"}, {"metric": "acc_norm", "aggregation": "mean", "higher_is_better": True}],
}  # fmt: skip
WHOLE: dict[str, Any] = {
    "task": "speech", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "q.jsonl"}},
    "test_split": "test", "output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "{{text}}",
}  # fmt: skip
SAID: dict[str, Any] = {
    "task": "said", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": ["q.jsonl"]}},
    "test_split": "test", "output_type": "generate_until", "doc_to_text": "{{q}}", "doc_to_target": "{{text}}",
    "generation_kwargs": {"until": ["."], "max_gen_toks": 5}, "metric_list": [{"metric": "exact_match"}],
    "filter_list": [{"name": "strict", "filter": [{"function": "take_first"}]}],
}  # fmt: skip


def written(directory: Path, *documents: dict[str, Any], rows: list[dict[str, Any]] = QUESTIONS) -> Path:
    """A task file for each document, with the questions beside them."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for number, document in enumerate(documents):
        (directory / f"{number}.yaml").write_text(yaml.safe_dump(document))
    return directory
