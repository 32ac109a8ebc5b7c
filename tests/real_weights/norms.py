"""How long is a SLERP of two trainings of one net? Known to five digits from another implementation, in float64."""

from __future__ import annotations

from collections.abc import Iterator

from tests.real_weights.models import Pair
from tests.workers.engines.builders import candidate

# By net and layer: the length of SLERP at t = 0.5, which is off the straight line (that has the length beside it).
KNOWN = {
    ("alex", "lin0.model.1.weight"): (0.840554, 0.786431),
    ("alex", "lin1.model.1.weight"): (2.427808, 2.401027),
    ("squeeze", "lin1.model.1.weight"): (0.496087, 0.444235),
    ("vgg", "lin2.model.1.weight"): (0.966040, 0.861951),
}


def lengths(pair: Pair) -> Iterator[tuple[str, float, float]]:
    """Of each tensor of the pair that is known: its name with the strategy, its length, and what it is to be."""
    net = pair.name.removeprefix("lpips ")
    for i, strategy in enumerate(("slerp", "linear")):
        made = candidate(*pair.models, strategy=strategy)
        for (of, tensor), known in KNOWN.items():
            if of == net:
                yield f"{strategy} of {pair.name} {tensor}", float(made.tensor(tensor).double().norm()), known[i]
