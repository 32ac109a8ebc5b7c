"""``make test``: every check and every test, on both databases and in a browser; the last lines say what did not run.

With CI=true a missing part fails; otherwise it is named with what to install. As root on Debian or Ubuntu the
missing packages (chromium, postgresql, iproute2) are installed first.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests import throwaway

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
DATABASE_TESTS = [
    # Constraints, locks, races, texts and numbers, and the way of a job through all of it: where databases differ. The
    # other tests of services and doors decide in Python what these queries have read.
    *("tests/store", "tests/feed"),
    *(
        f"tests/services/test_{name}.py"
        for name in (
            "bells",
            "cancel_at_every_step",
            "crowds",
            "database_away",
            "gangs",
            "kept",
            "life_of_a_job",
            "lock_order",
            "logs",
            "outages",
            "refused_starts",
            "registration",
            "replacing",
            "retry",
            "submission",
            "upkeep",
            "uploads",
        )
    ),
    *(f"tests/api/test_{name}.py" for name in ("jobs", "artifacts", "pool", "nodes", "wait", "plan", "access")),
    *("tests/checker/test_program.py", "tests/site/test_commands.py"),
]
SEPARATE = ["tests/browser", "tests/journeys", "tests/chaos_processes"]
# Nothing of these touches a database. Rules compute: one process imports torch and hypothesis for all; programs wait.
RULES = ["tests/core", "tests/simulation", "tests/test_walls.py"]
PROGRAMS = ["tests/workers", "tests/benchmarks"]
# Packages that are here when this program of theirs is.
PROGRAM_OF = {"chromium": "chromium", "iproute2": "ip"}
PRINTING = threading.Lock()


@dataclass
class Part:
    """One part of the run: what it is called, its commands, and the packages it needs.

    ``gives_way``: what runs beside it gets the processors first.
    """

    name: str
    commands: Sequence[Sequence[str | Path]]
    packages: Sequence[str] = ()
    gives_way: bool = False


def pytest(*args: str) -> list[str | Path]:
    """A pytest command of this environment."""
    return [sys.executable, "-m", "pytest", *args]


def has(package: str) -> bool:
    """True when what the package brings is here."""
    if package in PROGRAM_OF:
        return shutil.which(PROGRAM_OF[package]) is not None
    if package == "postgresql":
        try:
            throwaway.postgresql_bin()
        except throwaway.Missing:
            return False
    return True


def install(packages: Sequence[str]) -> None:
    """The packages are installed, where this is root on a machine with apt."""
    if not packages or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    say(f"installing {', '.join(packages)}")
    subprocess.run(["apt-get", "update", "-qq"], env=env, check=False, stdout=subprocess.DEVNULL)
    for package in packages:
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", package], env=env, check=False,
                       stdout=subprocess.DEVNULL)  # fmt: skip


def say(line: str) -> None:
    """A headline in the output."""
    sys.stdout.write(f"\n=== {line}\n")
    sys.stdout.flush()


def run(part: Part, env: Mapping[str, str], *, beside_others: bool) -> str:
    """``ok`` when every command of the part succeeded, else ``FAILED``, or what to install for it to run.

    Beside others its output is kept and printed in one piece.
    """
    if missing := [package for package in part.packages if not has(package)]:
        return f"not run: install {', '.join(missing)}"
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        if "postgresql" in part.packages:
            env = {**env, "DATABASE_URL": stack.enter_context(throwaway.postgresql(gives_way=part.gives_way))}
        out = stack.enter_context(tempfile.TemporaryFile()) if beside_others else None
        if out is None:
            say(part.name)
        first = throwaway.GIVING_WAY if part.gives_way else ()
        done = [
            subprocess.run([*first, *c], cwd=ROOT, env=env, check=False, stdout=out, stderr=out).returncode
            for c in part.commands
        ]
        if out is not None:
            out.seek(0)
            with PRINTING:
                say(part.name)
                sys.stdout.write(out.read().decode("utf-8", "replace"))
    result = "ok" if not any(done) else "FAILED"
    sys.stdout.write(f"--- {part.name}: {result} in {time.monotonic() - begun:.0f} s\n")
    sys.stdout.flush()
    return result


def rounds() -> list[list[list[Part]]]:
    """Everything, round by round; in a round the rows run side by side, and the parts of a row one after another.

    The journeys mostly wait for processes, so what computes all the time runs beside them, the longest from the
    beginning: the round lasts as long as the processors need for all of it. A house of a journey takes a node for lost
    that gets no processor for some seconds: what computes gives way to it, and no more than two houses are up at once.
    """
    skip = [f"--ignore={d}" for d in (*SEPARATE, *RULES, *PROGRAMS)]
    by_group = ["--dist", "loadgroup"]
    first_day, kills, killed_merges, preemption, gang = (
        Part(f"journey: {name}", [pytest(f"tests/journeys/test_{file}.py")])
        for name, file in (
            ("the first day", "first_day"),
            ("kills", "kills"),
            ("killed merges", "killed_merges"),
            ("preemption", "preemption"),
            ("several nodes", "gang"),
        )
    )
    faults = Part(
        "faults of processes",
        [pytest("tests/chaos_processes"), [sys.executable, "-m", "tests.chaos_processes", "--short"]],
        ("postgresql", "iproute2"),
    )
    return [
        [
            [
                Part("lint", [[BIN / "ruff", "format", "--check", "--quiet", "."], [BIN / "ruff", "check", "."]]),
                Part("walls", [[BIN / "lint-imports"]]),
                Part("types", [[BIN / "mypy", "."]]),
            ],
            # What is imported here is compiled for the many processes of the next rounds, which would else all do it.
            [
                Part("site", [[sys.executable, "manage.py", "check", "--fail-level", "WARNING"]]),
                Part("rules", [pytest(*RULES)]),
            ],
        ],
        [
            [Part("tests on SQLite", [pytest("tests", *skip, "-n", "2", *by_group)], gives_way=True)],
            [Part("programs", [pytest(*PROGRAMS, "-n", "2", *by_group)])],
            [
                kills,
                preemption,
                # The server is thrown away with its databases: nothing to tear down.
                Part("database tests on PostgreSQL", [pytest(*DATABASE_TESTS, "-n", "2", *by_group, "--reuse-db")],
                     ("postgresql",), gives_way=True),
            ],
            [first_day, gang, killed_merges, Part("browser", [pytest("tests/browser")], ("chromium",)), faults],
        ],
    ]  # fmt: skip


def run_row(row: Sequence[Part], env: Mapping[str, str], *, beside_others: bool) -> dict[str, str]:
    """What became of each part of the row, run one after another."""
    return {part.name: run(part, env, beside_others=beside_others) for part in row}


def main() -> int:
    """The exit status: 0 when everything that could run succeeded (with CI=true: when everything ran and did)."""
    only = sys.argv[1:]
    asked = [[[p for p in row if not only or any(w in p.name for w in only)] for row in side] for side in rounds()]
    chosen = [[row for row in side if row] for side in asked]
    needed = dict.fromkeys(package for side in chosen for row in side for part in row for package in part.packages)
    install([package for package in needed if not has(package)])
    results: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="emep-test-") as home:
        env = {**os.environ, "EMEP_DATA_DIR": home, "DJANGO_SETTINGS_MODULE": "emep_site.settings",
               throwaway.SHARED: home}  # fmt: skip
        env.pop("DATABASE_URL", None)
        # Without bytecode each of the hundreds of processes would compile the sources anew.
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        for side in chosen:
            with ThreadPoolExecutor(max(1, len(side))) as pool:
                for ended in pool.map(partial(run_row, env=env, beside_others=len(side) > 1), side):
                    results |= ended
    say("summary")
    for name, result in results.items():
        sys.stdout.write(f"{name:<32} {result}\n")
    good = sum(r == "ok" for r in results.values())
    missing = [n for n, r in results.items() if r.startswith("not run")]
    failed = "FAILED" in results.values() or (bool(missing) and os.environ.get("CI") == "true")
    sys.stdout.write(f"{good} of {len(results)} parts ok\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
