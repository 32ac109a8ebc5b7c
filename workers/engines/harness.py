"""Tasks of lm-eval by its own library: its prompts, requests and metrics; the answers are made batch by batch here.

``lm_eval`` is an optional extra and is imported when a job needs it. Nothing is fetched, and templates run in a
sandbox.
"""

from __future__ import annotations

import copy
import importlib
import logging
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import torch
from jinja2.sandbox import SandboxedEnvironment
from torch import nn

from workers.engines.harness_files import TaskFile
from workers.engines.in_batches import Abandoned, Row
from workers.engines.libraries import by_library
from workers.engines.models import Loaded
from workers.engines.refusals import EngineRefusal
from workers.harness_params import metric_name

LIBRARY = "lm_eval"
EXTRA = "requirements/lm-eval.txt"
SEED = 1234  # of the examples that stand before a question, the library's own
RESAMPLED = 1000  # draws for the error of a metric that has no formula for it
MAX_METRICS = 32
MAX_NAMES = 1200  # bytes of all their names: what a job's result tells of itself is one line
FIELD = {"field": "params.dataset"}
_WITH_BARS = ("api.task", "api.model", "models.huggingface")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tasks:
    """The chosen tasks as the library has built them, and every request that they make of the model, in order."""

    files: tuple[TaskFile, ...]
    limit: int | None
    scratch: Path
    version: str
    requests: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Scored:
    """What came of the tasks: ``metrics`` and their standard errors by name (None: no finite number), ``samples`` of
    each task, a row each sample and filter, and how many answers were no numbers."""

    metrics: dict[str, float | None]
    stderr: dict[str, float | None]
    samples: dict[str, int]
    about: dict[str, dict[str, Any]]
    rows: list[Row]
    not_finite: int


def open_tasks(files: Sequence[TaskFile], limit: int | None, scratch: Path) -> Tasks:
    """The tasks with the first ``limit`` samples of each; ``scratch`` takes what the library keeps of their data.

    Refuses a node without the library, and what it can't build.
    """
    library = harness_library()
    built = _built(tuple(files), scratch)
    for file in files:
        _tried(
            partial(built[file.name].build_all_requests, limit=limit),
            "unreadable_task", f"{file.file}: lm-eval can't put {file.name} to a model",
        )  # fmt: skip
    requests = tuple(each for task in built.values() for each in task.instances)
    names = [
        metric_name(name, metric, each.name)
        for name, task in built.items() for metric in task._metric_fn_list for each in task._filters
    ]  # fmt: skip
    if len(names) > MAX_METRICS or len("".join(names)) > MAX_NAMES:
        message = (
            f"the tasks have {len(names)} metrics with names of {len(''.join(names))} characters, at most {MAX_METRICS}"
            f" and {MAX_NAMES} are taken: name fewer tasks"
        )
        raise EngineRefusal("too_many_metrics", message, {"field": "params.tasks", "limit": MAX_METRICS})
    return Tasks(tuple(files), limit, scratch, f"{LIBRARY} {library.__version__}", requests)


@dataclass(frozen=True, slots=True)
class Answers:
    """The model's answers to the requests of tasks, ``batch_size`` of them at a time; the same batches, padded alike,
    wherever they are computed. ``words`` is the tokenizer, ``context`` how many tokens the model reads."""

    model: Loaded
    tasks: Tasks
    batch_size: int
    words: Any
    context: int
    _readers: dict[int, tuple[threading.Lock, Any]] = field(default_factory=dict)
    _alone: threading.Lock = field(default_factory=threading.Lock)

    @property
    def count(self) -> int:
        """How many requests there are."""
        return len(self.tasks.requests)

    @property
    def modules(self) -> Sequence[nn.Module]:
        """The model, once on each device."""
        return self.model.modules

    def rows(self, first: int, last: int, module: nn.Module, must_stop: Callable[[], bool]) -> list[Row]:
        """An answer each: how likely a continuation is and whether it is the likeliest, how likely a text is, or what
        follows; raises ``Abandoned``, and refuses a request that the library can't put to the model."""
        if must_stop():
            raise Abandoned
        lock, reader = self._reader(module)
        rows: list[Row] = []
        with lock:
            for kind, each in groupby(self.tasks.requests[first:last], key=lambda request: request.request_type):
                asked = list(each)
                answers = _tried(partial(_asked, reader, kind, asked), "unfit_sample", _whose(asked))
                start = first + len(rows)
                rows += [{"index": start + place, "answer": _kept(a)} for place, a in enumerate(answers)]
        return rows

    def _reader(self, module: nn.Module) -> tuple[threading.Lock, Any]:
        with self._alone:
            if id(module) not in self._readers:
                made = importlib.import_module(f"{LIBRARY}.models.huggingface").HFLM(
                    pretrained=module.model, tokenizer=copy.deepcopy(self.words), backend="causal",
                    batch_size=self.batch_size, max_length=self.context,
                )  # fmt: skip
                self._readers[id(module)] = (threading.Lock(), made)
            return self._readers[id(module)]


def scored(tasks: Tasks, answers: Iterator[Mapping[str, Any]]) -> Scored:
    """What the library makes of the rows of :meth:`Answers.rows`, all of them, in order."""
    given = [_read(row["answer"]) for row in answers]
    wrong = {r.task_name for r, a in zip(tasks.requests, given, strict=True) if _is_nan(a)}
    evaluator = importlib.import_module(f"{LIBRARY}.evaluator")
    built = _built(tasks.files, tasks.scratch)
    found = _tried(
        lambda: evaluator.evaluate(
            lm=_replay(tasks, given), task_dict={"tasks": built, "groups": {}}, limit=tasks.limit,
            bootstrap_iters=RESAMPLED, log_samples=True,
        ),
        "unfit_sample", f"the answers to {', '.join(built)[:200]} can't be measured",
    )  # fmt: skip
    metrics: dict[str, float | None] = {}
    errors: dict[str, float | None] = {}
    for name in built:
        for key, value in found["results"][name].items():
            metric, comma, filtered = key.partition(",")
            if comma:
                into = errors if metric.endswith("_stderr") else metrics
                into[metric_name(name, metric.removesuffix("_stderr"), filtered)] = _number(value, name in wrong)
    return Scored(
        metrics, errors, {name: found["n-samples"][name]["effective"] for name in built},
        {name: {"version": found["versions"][name], "num_fewshot": found["n-shot"][name], "file": file.file}
         for name, file in zip(built, tasks.files, strict=True)},
        list(_samples(found["samples"])), sum(map(_is_nan, given)),
    )  # fmt: skip


def harness_library() -> Any:
    """The library, offline, silent and with its templates in a sandbox; refuses a node without it."""
    os.environ.update({"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_EVALUATE_OFFLINE": "1",
                       "TRANSFORMERS_OFFLINE": "1", "DISABLE_MULTIPROC": "1"})  # fmt: skip
    try:
        library = importlib.import_module(LIBRARY)
        words: Any = importlib.import_module(f"{LIBRARY}.utils")
        spoken: list[Any] = [importlib.import_module(f"{LIBRARY}.{name}") for name in _WITH_BARS]
        importlib.import_module("datasets").disable_progress_bars()
    except ImportError as error:
        message = (
            f"the tasks are those of lm-eval, and the Python of this node has no {LIBRARY}: install {EXTRA} there (pip"
            f" install -r {EXTRA}), or let the job run on a node that has it"
        )
        raise EngineRefusal("missing_extra", message, {"field": "params.harness", "install": EXTRA}) from error
    logging.getLogger(LIBRARY).setLevel(logging.ERROR)
    if not isinstance(words.env, SandboxedEnvironment):
        words.env = _sandbox(words.env)
        for module in spoken:
            module.tqdm = partial(_no_bar, module.tqdm)
    return library


def _no_bar(bar: Callable[..., Any], *given: Any, **options: Any) -> Any:
    return bar(*given, **{**options, "disable": True})


def _sandbox(env: Any) -> SandboxedEnvironment:
    """The library's templates without a way out of them."""
    made = SandboxedEnvironment(undefined=env.undefined, keep_trailing_newline=True, autoescape=False)
    made.filters.update(env.filters)
    return made


def _built(files: Sequence[TaskFile], scratch: Path) -> dict[str, Any]:
    """Each task, before its requests are; built again from the same files it comes to the same ones."""
    task = importlib.import_module(f"{LIBRARY}.api.task")
    return {
        file.name: _tried(
            partial(_one, task.ConfigurableTask, file, scratch),
            "unreadable_task", f"{file.file}: lm-eval can't build {file.name}",
        )
        for file in files
    }  # fmt: skip


def _one(made_by: Any, file: TaskFile, scratch: Path) -> Any:
    document = copy.deepcopy(dict(file.document))
    document["dataset_kwargs"]["cache_dir"] = str(scratch)
    made = made_by(config=document)
    if made.get_config("num_fewshot") is None:
        made.set_config(key="num_fewshot", value=0)
    made.set_fewshot_seed(seed=SEED)
    return made


def _asked(reader: Any, kind: str, requests: list[Any]) -> list[Any]:
    with torch.no_grad():
        answers: list[Any] = getattr(reader, kind)(requests, disable_tqdm=True)
    return answers


def _replay(tasks: Tasks, answers: Sequence[Any]) -> Any:
    """A model of the library that gives the answers to the requests as they come, which must be those of the tasks."""
    of_kind: dict[str, list[tuple[Any, Any]]] = {}
    for request, answer in zip(tasks.requests, answers, strict=True):
        of_kind.setdefault(request.request_type, []).append((request.args, answer))

    def given(kind: str, requests: Sequence[Any]) -> list[Any]:
        known = of_kind[kind]
        if [request.args for request in requests] != [args for args, _ in known]:
            raise RuntimeError(f"the library asks another {kind} than before")
        return [answer for _, answer in known]

    base = importlib.import_module(f"{LIBRARY}.api.model").LM
    methods = {
        kind: lambda self, requests, kind=kind: given(kind, requests)
        for kind in ("loglikelihood", "loglikelihood_rolling", "generate_until")
    }
    return type("Replay", (base,), methods)()


def _samples(by_task: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[Row]:
    """A row each sample and filter: which sample it is, what was due, what was answered, and its metrics."""
    index = 0
    for task, samples in by_task.items():
        for each in sorted(samples, key=lambda sample: sample["doc_id"]):
            yield {
                "index": index, "task": task, "doc_id": each["doc_id"], "filter": each["filter"],
                "target": _plain(each["target"]), "answers": _plain(each["filtered_resps"]),
                "metrics": {name: _plain(each[name]) for name in each["metrics"]},
                "doc_hash": each["doc_hash"], "prompt_hash": each["prompt_hash"],
            }  # fmt: skip
            index += 1


def _plain(value: Any) -> Any:
    """The value as JSON has it; what is no finite number is null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, (str, bool, int)):
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return number if math.isfinite(number) else None


def _kept(answer: Any) -> Any:
    """An answer as a row keeps it, to the last bit; JSON has no number for NaN and infinity."""
    if isinstance(answer, tuple):
        return [_kept(answer[0]), bool(answer[1])]
    if isinstance(answer, str):
        return {"text": answer}
    return float(answer) if math.isfinite(answer) else str(float(answer))


def _read(kept: Any) -> Any:
    if isinstance(kept, list):
        return (_read(kept[0]), kept[1])
    return kept["text"] if isinstance(kept, dict) else float(kept)


def _is_nan(answer: Any) -> bool:
    value = answer[0] if isinstance(answer, tuple) else answer
    return isinstance(value, float) and math.isnan(value)


def _number(value: Any, wrong: bool) -> float | None:
    """A metric; None where an answer that it was made of is NaN, of which any other value would tell nothing."""
    plain = None if wrong or isinstance(value, str) else _plain(value)
    return None if plain is None else float(plain)


def _whose(requests: Sequence[Any]) -> str:
    first, last = requests[0], requests[-1]
    return f"the samples {first.doc_id} of {first.task_name} to {last.doc_id} of {last.task_name} can't be read"


def _tried(work: Callable[[], T], code: str, what: str) -> T:
    return by_library(work, code, what, FIELD)
