"""``python -m tests.chaos_processes.preparing NODE...``: the database and home that every house is copied from.

A process of its own, since it needs Django and leaves with every connection closed. As the embedded set prepares
itself, but with two small models made here instead of trained ones, and without static files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import django
import numpy
from safetensors.numpy import save_file

MODELS = ("one", "other")
TENSORS, SIDE = 12, 64


def model(directory: Path, seed: int) -> None:
    """A model that the other ones can be merged with: the same shapes, numbers of its own."""
    directory.mkdir()
    dice = numpy.random.default_rng(seed)
    tensors = {f"layers.{n}.weight": dice.standard_normal((SIDE, SIDE), numpy.float32) for n in range(TENSORS)}
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    (directory / "config.json").write_text(json.dumps({"model_type": "mlp", "layers": TENSORS}))


def main(nodes: list[str]) -> None:
    """Tables, people, two models and the nodes' tokens are there."""
    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    from emep_site.embedded import demo_files
    from scheduling.services import demo, now

    home = settings.DATA_DIR
    (home / "static").mkdir(parents=True)
    call_command("migrate", verbosity=0, interactive=False)
    fresh = demo.people()
    (home / "models").mkdir()
    for seed, name in enumerate(MODELS):
        model(home / "models" / name, seed)
    stored = demo.store(home / "models", now())
    for name in nodes:
        demo.node_token(name, home / "nodes" / name / "token")
    demo_files.write(home / "demo.json", settings.PUBLIC_URL, fresh, stored.models, stored.datasets)


if __name__ == "__main__":
    main(sys.argv[1:])
