"""Trains a classifier in plain PyTorch. Stopped anywhere, it goes on and ends with the bytes of a run that was not."""

from __future__ import annotations

import emep_job as job

job.attach()  # torch takes seconds to import: a stop that comes meanwhile is noticed too

import argparse
import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy

BATCH = 64
RATE = 1e-3
NOISE = 0.05
HIDDEN = (64, 32)


def samples(directory: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs (samples, features) and labels of every ``.jsonl`` in the directory."""
    lines = [line for path in sorted(directory.glob("*.jsonl")) for line in path.read_text("utf-8").splitlines()]
    if not lines:
        raise SystemExit(f"there is no .jsonl with samples in {directory}: name a data set as the input data")
    rows = [json.loads(line) for line in lines]
    return torch.tensor([row["input"] for row in rows]), torch.tensor([row["label"] for row in rows])


def network(sizes: list[int]) -> torch.nn.Sequential:
    """Layers with ReLU between them; their names are those of EMEP's architecture ``mlp``."""
    layers: list[torch.nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


class Training:
    """Everything that the next step depends on: weights, optimizer and random numbers. All of it is the checkpoint."""

    def __init__(self, sizes: list[int], seed: int) -> None:
        torch.manual_seed(seed)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.net = network(sizes).to(self.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=RATE)

    def step(self, inputs: torch.Tensor, labels: torch.Tensor) -> float:
        """One step on a batch, with some noise on its inputs; returns the loss."""
        noisy = inputs + NOISE * torch.randn(inputs.shape)
        loss = cross_entropy(self.net(noisy.to(self.device)), labels.to(self.device))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def save(self, path: Path) -> None:
        """The state, in one file."""
        state = {"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict(), "rng": torch.get_rng_state()}
        torch.save(state, path)

    def load(self, path: Path) -> None:
        """The state of an earlier attempt, on whatever device this one has."""
        state: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
        self.net.load_state_dict(state["net"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])


def batches(epoch: int, count: int, seed: int) -> list[torch.Tensor]:
    """Which samples are in each batch of the epoch. It follows from seed and epoch alone, so nothing of it is saved."""
    order = torch.Generator().manual_seed(1_000_003 * seed + epoch)
    return list(torch.randperm(count, generator=order).split(BATCH))


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a classifier on the input data.")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save-every", type=int, default=500, help="steps from one checkpoint to the next")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds to wait after each epoch, to watch it")
    asked = parser.parse_args()
    torch.use_deterministic_algorithms(mode=True)

    inputs, labels = samples(job.input_dir() / "data")
    sizes = [inputs.shape[1], *HIDDEN, int(labels.max()) + 1]
    training, begin = Training(sizes, asked.seed), 0
    if job.resuming():
        saved = job.resume_dir()
        training.load(saved / "state.pt")
        begin = int(saved.name.removeprefix("step-"))
        print(f"resumed at step {begin}", flush=True)

    each = -(-len(inputs) // BATCH)
    total = asked.epochs * each
    for step in range(begin, total):
        epoch, place = divmod(step, each)
        if place == 0 or step == begin:
            order = batches(epoch, len(inputs), asked.seed)
        loss = training.step(inputs[order[place]], labels[order[place]])
        if place == each - 1:
            job.progress(step + 1, total, loss=loss)
            time.sleep(asked.pause)
        if job.should_stop() or (step + 1) % asked.save_every == 0:
            with job.checkpoint(step + 1) as directory:  # a fresh one; renamed and announced when it is whole
                training.save(directory / "state.pt")
            if job.should_stop():
                job.exit_checkpointed()

    out = job.output_dir() / "net"
    out.mkdir(exist_ok=True)
    save_file({name: tensor.cpu() for name, tensor in training.net.state_dict().items()}, out / "model.safetensors")
    (out / "config.json").write_text(json.dumps({"model_type": "mlp", "layer_sizes": sizes, "activation": "relu"}))
    job.artifact("net", "net", kind="model")
    job.done()


if __name__ == "__main__":
    main()
