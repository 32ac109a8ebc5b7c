"""The habits of the house that no import contract can see: sizes, names, and where states are written."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OURS = ("emep_site", "scheduling", "workers")
MAX_FILE, MAX_FUNCTION = 400, 60
NAMELESS = {"utils", "util", "helpers", "helper", "common", "misc", "base", "manager", "data", "info"}


def sources() -> list[Path]:
    """The project's Python files, without migrations."""
    files = [p for room in OURS for p in (ROOT / room).rglob("*.py")]
    return [p for p in files if "migrations" not in p.parts]


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of the file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def shown(path: Path, line: int | None = None) -> str:
    """The path as it is printed in a failure."""
    return f"{path.relative_to(ROOT)}{f':{line}' if line else ''}"


def test_no_file_is_longer_than_400_lines():
    assert [shown(p) for p in sources() if len(p.read_text().splitlines()) > MAX_FILE] == []


def test_no_function_is_longer_than_60_lines():
    long = [
        shown(p, f.lineno) for p in sources() for f in functions(p) if (f.end_lineno or 0) - f.lineno >= MAX_FUNCTION
    ]
    assert long == []


def test_every_file_is_named_for_its_question():
    assert [shown(p) for p in sources() if p.stem in NAMELESS] == []


def test_every_module_says_what_it_is_for():
    assert [
        shown(p) for p in sources() if p.read_text().strip() and not ast.get_docstring(ast.parse(p.read_text()))
    ] == []


@pytest.mark.parametrize("room", ["scheduling/core", "scheduling/services", "workers/engines", "scheduling/api"])
def test_every_public_function_says_what_is_true_afterwards(room):
    silent = []
    for path in (ROOT / room).rglob("*.py"):
        tree = ast.parse(path.read_text())
        publics = [
            n for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and not n.name.startswith("_")
        ]
        silent += [shown(path, f.lineno) for f in publics if not ast.get_docstring(f)]
    assert silent == []


def test_job_states_are_written_by_the_commit_alone():
    """Outside ``store/commit`` nothing assigns or updates a ``state`` column."""
    written = re.compile(r"(\.state\s*=[^=])|(update\([^)]*\bstate=)")
    found = []
    for path in (ROOT / "scheduling").rglob("*.py"):
        if "commit" in path.parts or "migrations" in path.parts or "core" in path.parts:
            continue
        found += [shown(path, n) for n, line in enumerate(path.read_text().splitlines(), 1) if written.search(line)]
    assert found == []


def test_models_have_no_will():
    """No ``save`` or ``delete`` that does more, no signal receivers."""
    willed = [
        shown(p, f.lineno)
        for p in (ROOT / "scheduling/models").glob("*.py")
        for f in functions(p)
        if f.name in ("save", "delete", "clean")
    ]
    receivers = [shown(p) for p in sources() if re.search(r"@receiver|signals\.py", p.read_text())]
    assert willed + receivers == []


def test_nothing_is_enqueued_inside_a_request():
    """A task is started by beat or a person; services never enqueue."""
    assert [
        shown(p) for p in (ROOT / "scheduling").rglob("*.py") if re.search(r"\.delay\(|apply_async\(", p.read_text())
    ] == []


def test_the_core_reads_no_clock_and_no_dice():
    forbidden = {"time", "random", "os", "logging", "datetime", "secrets", "socket", "threading"}
    found = []
    for path in (ROOT / "scheduling/core").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = (
                [a.name for a in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            found += [f"{shown(path)} imports {n}" for n in names if n.split(".")[0] in forbidden]
    assert found == []


def test_every_command_has_a_test():
    commands = [p.stem for p in (ROOT / "scheduling/management/commands").glob("*.py") if p.stem != "__init__"]
    texts = "".join(p.read_text() for p in (ROOT / "tests").rglob("test_*.py"))
    assert [c for c in commands if f'"{c}"' not in texts] == []


def test_the_migrations_are_up_to_date(tmp_path):
    made = subprocess.run(
        [sys.executable, "manage.py", "makemigrations", "--check", "--dry-run"],
        cwd=ROOT,
        env={**os.environ, "EMEP_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr


def test_the_readme_draws_the_state_machine_from_the_table():
    from scheduling.core.lifecycle import mermaid

    assert mermaid().strip() in (ROOT / "README.md").read_text()
