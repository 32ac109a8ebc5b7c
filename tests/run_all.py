"""``make test``: every check and every test, on both databases and in a browser; the last lines say what did not run.

With CI=true a missing part fails; otherwise it is named with what to install. As root on Debian or Ubuntu the
missing packages (chromium, postgresql) are installed first.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests import throwaway

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
DATABASE_TESTS = ["tests/store", "tests/services", "tests/api", "tests/feed", "tests/site/test_commands.py"]
SEPARATE = ["tests/browser", "tests/journeys"]


@dataclass
class Part:
    """One part of the run: what it is called, its commands, and the package it needs."""

    name: str
    commands: Sequence[Sequence[str | Path]]
    package: str = ""


def pytest(*args: str) -> list[str | Path]:
    """A pytest command of this environment."""
    return [sys.executable, "-m", "pytest", *args]


def has(package: str) -> bool:
    """True when what the package brings is here."""
    if package == "chromium":
        return shutil.which("chromium") is not None
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


def run(part: Part, env: Mapping[str, str]) -> bool:
    """True when every command of the part succeeded."""
    begun = time.monotonic()
    say(part.name)
    good = True
    for command in part.commands:
        good = subprocess.run(command, cwd=ROOT, env=env, check=False).returncode == 0 and good
    sys.stdout.write(f"--- {part.name}: {'ok' if good else 'FAILED'} in {time.monotonic() - begun:.0f} s\n")
    return good


def parts() -> list[Part]:
    """Everything, in the order in which a fault is cheapest to see."""
    skip = [f"--ignore={d}" for d in SEPARATE]
    return [
        Part("lint", [[BIN / "ruff", "format", "--check", "."], [BIN / "ruff", "check", "."]]),
        Part("types", [[BIN / "mypy", "."]]),
        Part("walls", [[BIN / "lint-imports"]]),
        Part("tests on SQLite", [pytest("tests", *skip, "-n", "2", "--dist", "loadgroup")]),
        Part("database tests on PostgreSQL", [pytest(*DATABASE_TESTS, "-n", "2", "--dist", "loadgroup")], "postgresql"),
        Part("journeys", [pytest("tests/journeys")]),
        Part("browser", [pytest("tests/browser")], "chromium"),
    ]


def main() -> int:
    """The exit status: 0 when everything that could run succeeded (with CI=true: when everything ran and did)."""
    only = sys.argv[1:]
    chosen = [p for p in parts() if not only or any(word in p.name for word in only)]
    install([p.package for p in chosen if p.package and not has(p.package)])
    results: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="emep-test-") as home:
        env = {**os.environ, "EMEP_DATA_DIR": home, "DJANGO_SETTINGS_MODULE": "emep_site.settings"}
        env.pop("DATABASE_URL", None)
        for part in chosen:
            if part.package and not has(part.package):
                results[part.name] = f"not run: install {part.package}"
            elif part.package == "postgresql":
                with throwaway.postgresql() as url:
                    results[part.name] = "ok" if run(part, {**env, "DATABASE_URL": url}) else "FAILED"
            else:
                results[part.name] = "ok" if run(part, env) else "FAILED"
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
