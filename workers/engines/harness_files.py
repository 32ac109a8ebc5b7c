"""The task files of lm-eval in a directory, read as data: what they name is in it, and no code of theirs runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from workers.engines.data_files import MAX_BYTES
from workers.engines.refusals import EngineRefusal, Problem
from workers.harness_params import MAX_TASKS, is_task_file, no_such_task
from workers.harness_tasks import data_files, task_faults
from workers.param_errors import ParamError
from workers.rows_params import some
from workers.said_back import shown

MAX_TASK_FILE = 1_000_000
MAX_DEPTH = 8
DATA = (".jsonl", ".json")
_FIELD = {"field": "params.dataset"}


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A task: its name, the file that says so, and its document, in which every data file is an absolute path."""

    name: str
    file: str
    document: Mapping[str, Any]


def read_task_files(directory: Path, named: Sequence[str] | None, label: str) -> tuple[TaskFile, ...]:
    """The tasks of these names in their order, or all by name; refuses with everything that is wrong with them.

    ``label`` is what messages call the data set. Files of other tasks may be wrong.
    """
    found: dict[str, list[str]] = {}
    problems: list[Problem] = []
    documents: dict[str, Mapping[str, Any]] = {}
    for path in sorted(each for each in directory.rglob("*") if each.is_file() and is_task_file(each.name)):
        file = path.relative_to(directory).as_posix()
        try:
            document = _document(directory, path, ())
        except EngineRefusal as refusal:
            problems += refusal.problems
            continue
        name = document.get("task")
        if "group" in document or isinstance(name, list):
            if named is None:
                message = f"{file} is a group, which is not taken: leave it out, or name tasks"
                problems.append(Problem("unsupported_group", message, {"field": "params.tasks"}))
        elif name is not None:
            found.setdefault(str(name), []).append(file)
            documents[file] = document
    chosen = sorted(found) if named is None else [name for name in named if name in found]
    if named is not None and len(chosen) == len(named):
        problems = []  # they are of files that nobody asked for
    if not problems:
        problems += _problems(no_such_task(name, sorted(found), label) for name in named or () if name not in found)
    if named is None and len(chosen) > MAX_TASKS:
        message = f"{label} has {len(chosen)} tasks, at most {MAX_TASKS} are done by one job: name those with tasks"
        problems.append(Problem("too_many_tasks", message, {"field": "params.tasks", "limit": MAX_TASKS}))
    for name in chosen:
        if len(found[name]) > 1:
            message = f"{label} has task {name} in {some(found[name])}: leave one of them out"
            problems.append(Problem("twice", message, _FIELD))
        problems += _problems(task_faults(documents[found[name][0]], found[name][0]))
    if not problems and not chosen:
        problems.append(Problem("no_task_file", f"no file of {label} has a task: give one that says task", _FIELD))
    if problems:
        raise EngineRefusal.of(problems)
    tasks = [_placed(directory, name, found[name][0], documents[found[name][0]]) for name in chosen]
    wrong = [each for each in tasks if isinstance(each, Problem)]
    if wrong:
        raise EngineRefusal.of(wrong)
    return tuple(each for each in tasks if isinstance(each, TaskFile))


class _Words(yaml.SafeLoader):
    """YAML that is data; the library's tag for code is refused by its name."""


class _Code(Exception):
    pass


def _code(loader: yaml.SafeLoader, node: yaml.Node) -> Any:
    raise _Code(str(getattr(node, "value", "")))


_Words.add_constructor("!function", _code)


def _document(directory: Path, path: Path, through: tuple[Path, ...]) -> dict[str, Any]:
    """What the file says over what it includes, as the library merges them."""
    file = path.relative_to(directory).as_posix()
    if path in through or len(through) == MAX_DEPTH:
        raise EngineRefusal("include_cycle", f"{file} includes itself, or more than {MAX_DEPTH} deep: end it", _FIELD)
    if (size := path.stat().st_size) > MAX_TASK_FILE:
        raise EngineRefusal(
            "too_large", f"{file} has {size} bytes, a task file at most {MAX_TASK_FILE}: put the data beside it", _FIELD
        )
    try:
        document = yaml.load(path.read_text("utf-8"), Loader=_Words)  # noqa: S506 - a SafeLoader
    except _Code as code:
        message = f"{file} names code of its own (!function {str(code)[:60]}), which is never run: write a template"
        raise EngineRefusal("custom_code", message, _FIELD) from code
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        message = f"{file} is no YAML that can be read: {' '.join(str(error).split())[:200]}"
        raise EngineRefusal("unreadable_task", message, _FIELD) from error
    if not isinstance(document, dict):
        raise EngineRefusal("unreadable_task", f"{file} must be an object of YAML, not {shown(document)}", _FIELD)
    includes = document.pop("include", [])
    merged: dict[str, Any] = {}
    for name in includes if isinstance(includes, list) else [includes]:
        included = _inside(directory, path.parent, name)
        if included is None:
            message = f"{file} includes {shown(name)}, which is no file of the data set: give it beside the task"
            raise EngineRefusal("no_such_file", message, _FIELD)
        merged |= _document(directory, included, (*through, path))
    return {**merged, **document}


def _inside(directory: Path, folder: Path, name: Any) -> Path | None:
    """The file of that name in one of the folders of ``directory``; None for one outside, and where there is none."""
    if not isinstance(name, str) or "\0" in name or PurePosixPath(name).is_absolute():
        return None
    for start in (folder, directory):
        path = (start / name).resolve()
        if path.is_relative_to(directory.resolve()) and path.is_file():
            return directory / path.relative_to(directory.resolve())
    return None


def _placed(directory: Path, name: str, file: str, document: Mapping[str, Any]) -> TaskFile | Problem:
    folder = (directory / file).parent
    placed: dict[str, list[str]] = {}
    total = 0
    for split, files in data_files(document).items():
        for each in files:
            path = _inside(directory, folder, each)
            if path is None or not each.lower().endswith(DATA):
                message = (
                    f"{file}: {shown(each)} of data_files is no file of the data set that ends in {' or '.join(DATA)}"
                )
                return Problem("no_such_file", message, _FIELD)
            total += path.stat().st_size
            placed.setdefault(split, []).append(str(path.resolve()))
    if total > MAX_BYTES:
        message = f"{file}: its data has {total} bytes, at most {MAX_BYTES} are read: give fewer rows"
        return Problem("too_large", message, {**_FIELD, "limit": MAX_BYTES})
    return TaskFile(name, file, {**document, "dataset_kwargs": {"data_files": placed}})


def _problems(errors: Any) -> list[Problem]:
    found: list[ParamError] = list(errors)
    return [Problem(each.code, each.message, {"field": each.field}) for each in found]
