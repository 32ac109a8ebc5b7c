"""Trains a small character language model on two kinds of text, and from it one on each: prose and programs.

What comes out is what a merge needs: ``text-base``, ``text-prose`` and ``text-code`` (architecture ``decoder``), and
the held-out texts ``prose-test`` and ``code-test``. Stopped anywhere, it goes on and ends with the same bytes.
"""

from __future__ import annotations

import emep_job as job

job.attach()  # torch takes seconds to import: a stop that comes meanwhile is noticed too

import argparse
import json
import string
import sysconfig
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

CHARACTERS = "\n" + string.printable[:95]
LAYERS, WIDTH, HEADS, CONTEXT, BATCH = 3, 96, 4, 64, 24
CONFIG = {"model_type": "decoder", "num_layers": LAYERS, "width": WIDTH, "heads": HEADS, "context": CONTEXT,
          "characters": CHARACTERS}  # fmt: skip
MOST = {"prose": 240_000, "code": 400_000}
PIECE = 640  # characters of a held-out text
# What is trained in this order: (name, from which, on which texts, steps of 400 and 300, rate).
PARTS = (("base", "", ("prose", "code"), 400, 2e-3), ("prose", "base", ("prose",), 300, 1e-3),
         ("code", "base", ("code",), 300, 1e-3))  # fmt: skip


class Layer(nn.Module):
    """A layer whose tensors are called as EMEP's architecture ``decoder`` has them."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        x = x + self.proj(functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    """Foretells the next character: tokens (batch, length) to logits (batch, length, characters)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.pos_embed = nn.Embedding(len(CHARACTERS), WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(CHARACTERS), bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens) + self.pos_embed.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def texts() -> dict[str, str]:
    """Texts that this machine has: Debian's licences, and the sources of Python's own library."""
    licences = sorted(p for p in Path("/usr/share/common-licenses").glob("*") if p.is_file() and not p.is_symlink())
    sources = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    found = {}
    for name, paths in (("prose", licences), ("code", sources)):
        whole = "".join(path.read_text("utf-8", errors="replace") for path in paths).expandtabs(4)
        found[name] = "".join(c for c in whole if c in CHARACTERS)[: MOST[name]]
        if len(found[name]) < MOST[name] // 2:
            raise SystemExit(
                f"this machine has only {len(found[name])} characters of {name}: {MOST[name] // 2} are needed"
            )
    return found


def tokens_of(text: str) -> torch.Tensor:
    """The number of each character."""
    number = {c: i for i, c in enumerate(CHARACTERS)}
    return torch.tensor([number[c] for c in text])


def batch(text: torch.Tensor, step: int, seed: int) -> torch.Tensor:
    """Pieces of the text, which follow from seed and step alone, so nothing of it is saved."""
    g = torch.Generator().manual_seed(1_000_003 * seed + step)
    starts = torch.randint(len(text) - CONTEXT - 1, (BATCH,), generator=g)
    return torch.stack([text[at : at + CONTEXT + 1] for at in starts])


class Training:
    """Everything that the next step depends on; all of it is the checkpoint. ``made``: the models that are done."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.made: dict[str, dict[str, torch.Tensor]] = {}
        self.net = Decoder()
        self.begin("", PARTS[0][-1])

    def begin(self, of: str, rate: float) -> None:
        """The next part starts from this model."""
        if of:
            self.net.load_state_dict(self.made[of])
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=rate)

    def step(self, pieces: torch.Tensor) -> float:
        """One step; returns the loss."""
        logits = self.net(pieces[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), pieces[:, 1:].flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def save(self, path: Path) -> None:
        """The state, in one file."""
        torch.save({"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict(), "made": self.made}, path)

    def load(self, path: Path) -> None:
        """The state of an earlier attempt."""
        state = torch.load(path, weights_only=True, map_location="cpu")
        self.net.load_state_dict(state["net"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.made = state["made"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a language model on two kinds of text, then one on each.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", type=float, default=1.0, help="of the steps, to be done sooner")
    asked = parser.parse_args()
    torch.use_deterministic_algorithms(mode=True)
    torch.set_num_threads(1)  # sums of several threads would have other last digits

    whole = texts()
    train = {name: tokens_of(text[: len(text) * 9 // 10]) for name, text in whole.items()}
    parts = [(name, of, kinds, max(1, int(steps * asked.scale)), rate) for name, of, kinds, steps, rate in PARTS]
    total, done = sum(part[3] for part in parts), 0
    training, begin = Training(asked.seed), 0
    if job.resuming():
        saved = job.resume_dir()
        training.load(saved / "state.pt")
        begin = int(saved.name.removeprefix("step-"))
        print(f"resumed at step {begin}", flush=True)
    for name, of, kinds, steps, rate in parts:
        for at in range(max(begin - done, 0), steps):
            if at == 0:
                training.begin(of, rate)
            loss = training.step(batch(train[kinds[at % len(kinds)]], done + at, asked.seed))
            if (at + 1) % 20 == 0:
                job.progress(done + at + 1, total, loss=loss)
            if at + 1 == steps:
                training.made[name] = {key: value.clone() for key, value in training.net.state_dict().items()}
            if job.should_stop() or (done + at + 1) % 100 == 0:
                with job.checkpoint(done + at + 1) as directory:
                    training.save(directory / "state.pt")
                if job.should_stop():
                    job.exit_checkpointed()
        done += steps

    for name, state in training.made.items():
        out = job.output_dir() / f"text-{name}"
        out.mkdir(exist_ok=True)
        save_file(state, out / "model.safetensors")
        (out / "config.json").write_text(json.dumps(CONFIG))
        job.artifact(f"text-{name}", out.name, kind="model")
    for name, text in whole.items():
        out = job.output_dir() / f"{name}-test"
        out.mkdir(exist_ok=True)
        held = text[len(text) * 9 // 10 :]
        pieces = [held[at : at + PIECE] for at in range(0, len(held) - PIECE + 1, PIECE)]
        (out / "test.jsonl").write_text("".join(json.dumps({"text": piece}) + "\n" for piece in pieces))
        job.artifact(f"{name}-test", out.name, kind="dataset")
    job.done()


if __name__ == "__main__":
    main()
