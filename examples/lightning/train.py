"""Trains a classifier with Lightning. Stopped anywhere, it saves and goes on from there."""

from __future__ import annotations

import emep_job as job

job.attach()  # Lightning takes many seconds to import: a stop that comes meanwhile is noticed too

import argparse
import json
import time
from pathlib import Path
from typing import Any

import pytorch_lightning as lightning
import torch
from pytorch_lightning.callbacks import Callback, ModelCheckpoint
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset


def samples(directory: Path) -> TensorDataset:
    """The samples of every ``.jsonl`` in the directory."""
    lines = [line for path in sorted(directory.glob("*.jsonl")) for line in path.read_text("utf-8").splitlines()]
    if not lines:
        raise SystemExit(f"there is no .jsonl with samples in {directory}: name a data set as the input data")
    rows = [json.loads(line) for line in lines]
    return TensorDataset(torch.tensor([row["input"] for row in rows]), torch.tensor([row["label"] for row in rows]))


class Classifier(lightning.LightningModule):
    """Two layers."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(features, 64), torch.nn.ReLU(), torch.nn.Linear(64, classes))

    def training_step(self, batch: Any, place: int) -> torch.Tensor:
        inputs, labels = batch
        loss = cross_entropy(self.net(inputs), labels)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3)


class Tell(Callback):
    """Tells EMEP how far it is."""

    def __init__(self, pause: float) -> None:
        self.pause = pause

    def on_train_epoch_end(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        job.progress(trainer.current_epoch + 1, trainer.max_epochs or 0, unit="epoch",
                     loss=trainer.callback_metrics["loss"])  # fmt: skip
        time.sleep(self.pause)


class Checkpoints(ModelCheckpoint):
    """After every epoch, and when an exception or a signal ends the training; EMEP is told of each when it is whole."""

    def __init__(self, directory: Path) -> None:
        super().__init__(
            dirpath=directory, filename="{step}", save_on_exception=True,
            monitor="step", mode="max", save_top_k=2,  # the newest, and the one before until that is stored
        )  # fmt: skip

    def _save_checkpoint(self, trainer: lightning.Trainer, filepath: str) -> None:
        super()._save_checkpoint(trainer, filepath)
        job.saved(trainer.global_step, Path(filepath).name)


def newest(directory: Path) -> Path | None:
    """The checkpoint with the most steps; None if there is none."""
    return max(directory.glob("step=*.ckpt"), key=lambda path: int(path.stem.split("=")[1]), default=None)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a classifier on the input data.")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds to wait after each epoch, to watch it")
    asked = parser.parse_args()

    lightning.seed_everything(asked.seed)
    data = samples(job.input_dir() / "data")
    kept = Checkpoints(job.checkpoint_dir())
    trainer = lightning.Trainer(
        max_epochs=asked.epochs, callbacks=[kept, Tell(asked.pause)], logger=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=job.scratch_dir(),
    )  # fmt: skip
    last = newest(job.checkpoint_dir()) if job.resuming() else None
    if last:
        print(f"resumed from {last.name}", flush=True)
    if job.should_stop():  # the signal came before Lightning could take it
        job.exit_checkpointed()
    model = Classifier(data.tensors[0].shape[1], int(data.tensors[1].max()) + 1)
    try:
        trainer.fit(model, DataLoader(data, batch_size=64, shuffle=True), ckpt_path=last)
    except SystemExit:  # so Lightning ends after SIGTERM, with exit code 0 if nobody says otherwise
        job.exit_checkpointed()

    torch.save(model.net.state_dict(), job.output_dir() / "net.pt")
    job.artifact("net", "net.pt", kind="model")
    job.done()


if __name__ == "__main__":
    main()
