"""Trains a small BERT with Hugging Face's Trainer. Stopped anywhere, it saves and goes on from there."""

from __future__ import annotations

import emep_job as job

job.attach()  # transformers takes many seconds to import: a stop that comes meanwhile is noticed too

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_utils import get_last_checkpoint

LEVELS = 17  # a pixel from 0 to 1 in sixteenths is a token


class Digits(torch.utils.data.Dataset):
    """The samples of every ``.jsonl`` in the directory, each number of an input as a token."""

    def __init__(self, directory: Path) -> None:
        lines = [line for path in sorted(directory.glob("*.jsonl")) for line in path.read_text("utf-8").splitlines()]
        if not lines:
            raise SystemExit(f"there is no .jsonl with samples in {directory}: name a data set as the input data")
        self.rows = [json.loads(line) for line in lines]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        row = self.rows[place]
        tokens = (torch.tensor(row["input"]) * (LEVELS - 1)).round().long()
        return {"input_ids": tokens, "labels": torch.tensor(row["label"])}


class Tell(TrainerCallback):
    """Tells EMEP how far it is, and of every checkpoint that is whole."""

    def __init__(self, pause: float) -> None:
        self.pause = pause

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        numbers = {name: value for name, value in (logs or {}).items() if name in ("loss", "grad_norm")}
        job.progress(state.global_step, state.max_steps, **numbers)
        time.sleep(self.pause)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        job.saved(state.global_step, f"checkpoint-{state.global_step}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small BERT on the input data.")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--save-every", type=int, default=50, help="steps from one checkpoint to the next")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds to wait after each log, to watch it")
    asked = parser.parse_args()

    set_seed(asked.seed)
    data = Digits(job.input_dir() / "data")
    shape = BertConfig(
        vocab_size=LEVELS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=len(data.rows[0]["input"]), num_labels=max(row["label"] for row in data.rows) + 1,
    )  # fmt: skip
    kept = str(job.checkpoint_dir())
    trainer = Trainer(
        model=BertForSequenceClassification(shape),
        args=TrainingArguments(
            output_dir=kept, max_steps=asked.steps, per_device_train_batch_size=32, learning_rate=1e-3,
            logging_steps=10, save_steps=asked.save_every,
            save_total_limit=2,  # the newest, and the one before until that is stored
            enable_jit_checkpoint=True, report_to="none", disable_tqdm=True, seed=asked.seed,
        ),
        train_dataset=data,
        callbacks=[Tell(asked.pause)],
    )  # fmt: skip
    last = get_last_checkpoint(kept) if job.resuming() else None
    if last:
        print(f"resumed from {Path(last).name}", flush=True)
    if job.should_stop():  # the signal came before the Trainer could take it
        job.exit_checkpointed()
    trainer.train(resume_from_checkpoint=last)
    if trainer.state.global_step < asked.steps:  # train() returns as if all were done
        job.saved(trainer.state.global_step, f"checkpoint-{trainer.state.global_step}")
        job.exit_checkpointed()

    trainer.save_model(str(job.output_dir() / "model"))
    job.artifact("model", "model", kind="model")
    job.done()


if __name__ == "__main__":
    main()
