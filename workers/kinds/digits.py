"""``python -m workers.kinds.digits --out DIR``: the demo models, tuned from one base on halves of the digits, and their
data sets.

Set-up: an MLP 64-256-128-64-10 with ReLU on scikit-learn's 8x8 digits. The base sees 150 images of all classes;
one model goes on with the digits 0 to 4, the other with 5 to 9. Equal seeds give equal bytes on one type of CPU.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from workers.engines.durable import write_file

SIZES = (64, 256, 128, 64, 10)
TRAIN, TEST, BASE = 628, 538, 150
BATCH = 64
TESTS, SEARCHED = "digits-test", "digits-search"
State = Mapping[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Images:
    """Pixels from 0 to 1, one row an image, and the digit each shows."""

    pixels: torch.Tensor
    digits: torch.Tensor

    def of(self, *digits: int) -> Images:
        """Only the images of these digits, in the same order."""
        mask = torch.isin(self.digits, torch.tensor(digits))
        return Images(self.pixels[mask], self.digits[mask])


def split(seed: int) -> dict[str, Images]:
    """``base`` (150 of train), ``train`` (628), ``search`` (631) and ``test`` (538), stratified by digit."""
    data = load_digits()
    pixels = torch.tensor(data.data / 16.0, dtype=torch.float32)
    digits = torch.tensor(data.target, dtype=torch.int64)

    def part(rows: list[int], size: int) -> tuple[list[int], list[int]]:
        first, second = train_test_split(rows, train_size=size, stratify=digits[rows].tolist(), random_state=seed)
        return first, second

    train, rest = part(list(range(len(digits))), TRAIN)
    test, search = part(rest, TEST)
    base, _ = part(train, BASE)
    rows = {"base": base, "train": train, "search": search, "test": test}
    return {name: Images(pixels[r], digits[r]) for name, r in rows.items()}


def network() -> torch.nn.Sequential:
    """The untrained network; its parameters are ``0.weight``, ``0.bias``, ``2.weight``, …"""
    layers: list[torch.nn.Module] = []
    for inputs, outputs in pairwise(SIZES):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def accuracy(state: State, images: Images) -> float:
    """Share of ``images`` that the network with these weights reads rightly."""
    model = network()
    model.load_state_dict(dict(state))
    with torch.no_grad():
        right = int((model(images.pixels).argmax(1) == images.digits).sum())
    return right / len(images.digits)


def train_models(seed: int) -> dict[str, State]:
    """The weights of ``digits-base``, ``digits-0-4`` and ``digits-5-9``."""
    torch.set_num_threads(1)
    torch.set_deterministic_debug_mode("error")
    images = split(seed)
    torch.manual_seed(seed)
    base = _trained(None, images["base"], epochs=12, rate=3e-3, seed=seed)
    return {
        "digits-base": base,
        "digits-0-4": _trained(base, images["train"].of(0, 1, 2, 3, 4), epochs=10, rate=1e-3, seed=seed),
        "digits-5-9": _trained(base, images["train"].of(5, 6, 7, 8, 9), epochs=10, rate=1e-3, seed=seed),
    }


def write_models(out: Path, models: Mapping[str, State]) -> None:
    """Each model as ``out/NAME/model.safetensors`` with the one ``config.json`` they share."""
    config = {"model_type": "mlp", "layer_sizes": list(SIZES), "activation": "relu", "classes": 10}
    for name, state in models.items():
        directory = out / name
        directory.mkdir(parents=True, exist_ok=True)
        save_file(dict(state), directory / "model.safetensors", metadata={"format": "pt"})
        write_file(directory / "config.json", json.dumps(config, indent=2, sort_keys=True).encode() + b"\n")


def write_samples(directory: Path, images: Images, name: str = "test.jsonl") -> None:
    """The images as a data set that evaluations read: ``name`` in the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    rows = zip(images.pixels.tolist(), images.digits.tolist(), strict=True)
    lines = [json.dumps({"input": pixels, "label": digit}, separators=(",", ":")) + "\n" for pixels, digit in rows]
    write_file(directory / name, "".join(lines).encode())


def _trained(start: State | None, images: Images, *, epochs: int, rate: float, seed: int) -> State:
    model = network()
    if start is not None:
        model.load_state_dict(dict(start))
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    order = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for rows in torch.randperm(len(images.digits), generator=order).split(BATCH):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images.pixels[rows]), images.digits[rows]).backward()
            optimizer.step()
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def main() -> int:
    """Train, write, and print the accuracy of each model on the test images."""
    parser = argparse.ArgumentParser(prog="python -m workers.kinds.digits", description="Train the demo models.")
    parser.add_argument("--out", type=Path, required=True, help="directory for the three models and the two data sets")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other models (default 0)")
    arguments = parser.parse_args()
    models = train_models(arguments.seed)
    write_models(arguments.out, models)
    images = split(arguments.seed)
    test = images["test"]
    write_samples(arguments.out / TESTS, test)
    write_samples(arguments.out / SEARCHED, images["search"], "search.jsonl")
    for name, state in models.items():
        sys.stdout.write(f"{name}: accuracy {accuracy(state, test):.4f} on {len(test.digits)} test images\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
