"""``python -m workers agent …`` or ``python -m workers keeper …``."""

from __future__ import annotations

import importlib
import sys

ROLES = ("agent", "keeper")


def main(argv: list[str]) -> int:
    """Run the named role with the rest of the arguments; ``--check`` alone means the agent's."""
    if argv[:1] == ["--check"]:
        argv = ["agent", *argv]
    if not argv or argv[0] not in ROLES:
        sys.stderr.write(f"usage: python -m workers {{{','.join(ROLES)}}} …  (each has --help)\n")
        return 2
    # By name: the keeper must not load the agent's libraries.
    module = {"agent": "workers.agent.command", "keeper": "workers.agent.keeper_program"}[argv[0]]
    return int(importlib.import_module(module).main(argv[1:]))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
