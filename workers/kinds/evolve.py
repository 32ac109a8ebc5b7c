"""Kind evolve: open the models and data sets, search, judge the best on the test, write it, store."""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from workers.engines import evaluating, merging, searching
from workers.engines.candidates import Found, Judge, in_memory, in_order, tried
from workers.engines.durable import write_file
from workers.engines.merging import device_class
from workers.engines.producing import produce
from workers.engines.refusals import EngineRefusal
from workers.engines.results import Results
from workers.engines.searching import Ask, Bounds, Search, key_of, versions
from workers.engines.sources import Model
from workers.engines.writing import PlannedWriter
from workers.kinds.by_batches import SAVE_EVERY_S, SAVE_SHARE, TELL_EVERY_S, begun, digest, refusing
from workers.kinds.checkpoint import FRAMEWORK
from workers.kinds.context import DONE, JobContext
from workers.kinds.evolve_check import Subject, memory_estimate, memory_problems, opened
from workers.kinds.memory import fitting, room
from workers.kinds.merge import lineage_of, planned, store
from workers.search_rows import BEST, DIRECTIONS, FIXED, SEARCH, TESTED

MODEL, REPORT = "best", "search"
LEDGER, SUMMARY = "ledger.jsonl", "search.json"
THROTTLE = "EMEP_EVOLVE_THROTTLE_S"
Row = dict[str, Any]


def run(context: JobContext) -> int:
    """Run one attempt of a search; returns its exit code."""
    return refusing(context, _run)


def _run(context: JobContext) -> int:
    searching.library()  # a node that lacks it is told before anything is read
    devices = begun(context)
    subject, first = opened(context)
    free = room()
    if problems := memory_problems(first, free, devices):
        raise EngineRefusal.of(problems)
    count = fitting(lambda n: memory_estimate(first, n), len(devices), free)
    if count < len(devices):
        context.log(f"memory for {count} of {len(devices)} candidates at once: the other devices are not used")
    told = _lineage(context, subject, device_class(devices[0]))
    results = Results(context.checkpoint_dir, told["derivation_key"])
    kept = results.restore()
    job = _Job(context, subject, devices[:count], results)
    context.log(_plan_in_words(subject, job.plan, count))
    if context.resuming:
        context.log(f"resume: {kept} of {job.total} evaluations verified and kept")
    try:
        best = job.searched() and job.tested() and job.written()
    except Exception:
        job.save()  # what is done is there for a retry
        raise
    if not best:
        job.save()
        context.log(f"checkpoint: {len(results)} of {job.total} evaluations")
        return context.checkpoint_exit_code
    job.publish(told)
    context.events.emit("done")
    return DONE


def _lineage(context: JobContext, subject: Subject, device: str) -> dict[str, Any]:
    """What the ledger depends on: this identifies the search and becomes the lineage of what it tells."""
    artifacts = {i.name: i.artifact for i in context.inputs}
    basis = {
        "recipe": {
            **{name: value for name, value in subject.params.items() if name != "merge"},
            "merge": {n: v for n, v in subject.params["merge"].items() if n not in ("models", "base_model")},
            "inputs": artifacts,
            "metrics": list(subject.search.metrics),
            "architecture": digest(subject.search.config),  # itself it may be long
        },
        "parents": [i.artifact for i in context.inputs],
        "engine_version": f"{searching.ENGINE_VERSION}/{merging.ENGINE_VERSION}/{evaluating.ENGINE_VERSION}",
        "device_class": device,
    }
    return {**basis, "derivation_key": digest(basis)}


def _plan_in_words(subject: Subject, plan: searching.Plan, workers: int) -> str:
    coordinates = subject.plan.space.coordinates
    shown = ", ".join(each.about for each in coordinates[:4]) + (" and more" if len(coordinates) > 4 else "")
    return (
        f"plan: {len(coordinates)} coordinates ({shown}), {len(plan.models)} models and {len(plan.fixed)} points first,"
        f" then up to {plan.generations} generations of {plan.population}, {workers} at once, judged by"
        f" {', '.join(subject.search.metrics)}"
    )


@dataclass(frozen=True, slots=True)
class _Evaluated:
    """What came of one evaluation, before it has its place in the ledger."""

    found: Found
    digest: str | None
    tries: int


class _Job:
    """The search of one job: its ledger, the evaluations that are due, and what is told of them."""

    def __init__(
        self, context: JobContext, subject: Subject, devices: Sequence[torch.device], results: Results
    ) -> None:  # fmt: skip
        self._context = context
        self._subject = subject
        self._devices = devices
        self._results = results
        self._directions = {name: DIRECTIONS[name] for name in subject.search.metrics}
        coordinates = subject.plan.space.coordinates
        bounds = Bounds(tuple(c.low for c in coordinates), tuple(c.high for c in coordinates))
        self.plan = searching.Plan(
            bounds, tuple(i.name for i in subject.models), subject.plan.fixed, subject.plan.population,
            subject.plan.generations, float(subject.params["sigma"]), int(subject.params["seed"]),
        )  # fmt: skip
        self._rows: list[Row] = [json.loads(line) for line in results.lines()]
        self._kept = len(self._rows)
        self._seen: dict[tuple[str, tuple[float, ...]], Row] = {}
        self._search = Search(self.plan, self._directions)
        tests = len(self.plan.models) + 2 if subject.test else 0
        self.total = self.plan.total + tests
        self._throttle_s = float(context.environ.get(THROTTLE) or 0.0)
        self._begun_at = self._saved_at = context.elapsed()
        self._told_at = self._scored_at = self._begun_at - TELL_EVERY_S

    # ------------------------------------------------------------ the search

    def searched(self) -> bool:
        """Every evaluation of the search is in the ledger; False when it is to stop before."""
        while asks := self._search.due():
            if not self._all_there(SEARCH, asks, self._subject.search):
                return False
            rows = self._rows[asks[0].index : asks[0].index + len(asks)]
            exact = self._search.is_exact
            self._search.told(asks, rows)
            if exact and not self._search.is_exact:
                self._context.log(
                    f"resume: inexact: the points of generation {asks[0].generation} were drawn on another type of CPU "
                    "or by another version, and are taken as they are"
                )
            self._tell_generation(asks[0].generation, rows)
        self._refuse_without_score()
        best = self._row_of(SEARCH, BEST)
        told = ", ".join(f"{name} {value:.6g}" for name, value in best["metrics"].items() if value is not None)
        self._context.log(f"search: ended by {self._search.ended_by}; the best is evaluation {best['index']}, {told}")
        return True

    def tested(self) -> bool:
        """The best, the best of the fixed points and every model are judged on the test set, if there is one."""
        judge = self._subject.test
        if judge is None:
            return True
        first = self._count(SEARCH)
        whats = [(BEST, self._point(BEST)), (FIXED, self._point(FIXED)), *((name, None) for name in self.plan.models)]
        asks = [Ask(first + at, -1, what, point) for at, (what, point) in enumerate(whats)]
        self.total = first + len(asks)
        return self._all_there(TESTED, asks, judge)

    def _all_there(self, part: str, asks: Sequence[Ask], judge: Judge) -> bool:
        """The rows of these evaluations are there: those that were kept, and the others in their order."""
        for row in self._rows[asks[0].index : asks[-1].index + 1]:
            self._remember(row)
        due = [ask for ask in asks if ask.index >= len(self._rows)]
        own: dict[tuple[float, ...], int] = {}
        for ask in due:
            if ask.point is not None:
                own.setdefault(ask.point, ask.index)

        def work(ask: Ask, device: torch.device) -> _Evaluated:
            known = ask.point is not None and ((part, ask.point) in self._seen or own[ask.point] != ask.index)
            return _Evaluated(Found(None), None, 0) if known else self._evaluated(ask, judge, device)

        stop = self._context.stop.requested
        return in_order(due, self._devices, work, lambda ask, made: self._append(part, ask, made), stop)

    def _evaluated(self, ask: Ask, judge: Judge, device: torch.device) -> _Evaluated:
        """A candidate that fails is tried once more, and has failed then."""
        named: list[str | None] = [None]

        def model() -> Model:
            if ask.point is None:
                place = self.plan.models.index(ask.what)
                named[0] = self._subject.models[place].digest or self._subject.models[place].artifact
                return self._subject.tensors.models[place]
            made = self._subject.made(ask.point)
            told = lineage_of(made.context, made.recipe, made.candidate, device_class(device))
            named[0] = told["derivation_key"]
            return in_memory(made.candidate, ask.what, device)

        found = tried(model, judge, device, self._context.stop.overdue)
        if found.failed is None:
            return _Evaluated(found, named[0], 1)
        return _Evaluated(tried(model, judge, device, self._context.stop.overdue), named[0], 2)

    def _append(self, part: str, ask: Ask, made: _Evaluated) -> None:
        """The next row of the ledger; a point that was there before has what was found then."""
        before = self._seen.get((part, ask.point)) if ask.point is not None else None
        if before is not None:
            copied = {name: before[name] for name in ("digest", "metrics", "score", "failed", "tries")}
            row = {**_place(part, ask), **copied, "same_as": before["index"]}
        else:
            found = made.found
            score = None if found.failed or found.metrics is None else found.metrics[next(iter(self._directions))]
            row = {
                **_place(part, ask), "digest": made.digest, "metrics": found.metrics, "score": score,
                "failed": found.failed, "tries": made.tries, "same_as": None,
            }  # fmt: skip
            if found.failed:
                self._context.log(f"evaluation {ask.index} ({ask.what}) has failed ({found.failed}): {found.why[:500]}")
        self._results.append([row])
        self._rows.append(row)
        self._remember(row)
        self._on_row()

    def _remember(self, row: Row) -> None:
        if row["x"] is not None:
            self._seen.setdefault((row["set"], tuple(row["x"])), row)

    # ------------------------------------------------------------ the result

    def written(self) -> bool:
        """The best lies in the output as a model, as a job of kind merge would have written it."""
        made = self._subject.made(self._point(BEST))
        device = self._devices[0]
        told = lineage_of(made.context, made.recipe, made.candidate, device_class(device))
        plan = planned(made.context, made.candidate, told)
        writer = PlannedWriter(plan, self._context.checkpoint_dir / FRAMEWORK)
        try:
            writer.open()
            stop = self._context.stop
            if not produce(
                made.candidate, writer, devices=self._devices, should_stop=stop.requested, must_stop=stop.overdue
            ):
                writer.keep()
                return False
            store(made.context, writer, told, made.recipe, made.candidate, MODEL)
            return True
        finally:
            writer.close()

    def publish(self, lineage: Mapping[str, Any]) -> None:
        """The ledger and what it comes to lie in the output, and the scores are told."""
        destination = self._context.output_dir / REPORT
        shutil.rmtree(destination, ignore_errors=True)
        destination.mkdir(parents=True)
        for _ in self._results.publish(destination / LEDGER):
            pass
        document = self._summary()
        write_file(destination / SUMMARY, json.dumps(document, indent=2, sort_keys=True).encode() + b"\n")
        for score in document["scores"]:
            for part in (SEARCH, TESTED):
                value = (score[part] or {}).get(self._subject.search.metrics[0])
                if value is not None:
                    self._context.events.emit("metric", name=f"{part} {score['what']}", step=self.total, value=value)
        meta = {
            **lineage, "best": document["best"]["digest"], "made_with": {**versions(), "torch": torch.__version__},
            "scores": self._of_best(document["scores"][0]),
        }  # fmt: skip
        self._context.announce(REPORT, "eval", meta)
        self._context.log(f"store: {REPORT} with {LEDGER} and {SUMMARY}")

    def _summary(self) -> dict[str, Any]:
        best = self._row_of(SEARCH, BEST)
        made = self._subject.made(tuple(best["x"]))
        told = lineage_of(made.context, made.recipe, made.candidate, device_class(self._devices[0]))
        coordinates = self._subject.plan.space.coordinates
        whats = [BEST, FIXED, *self.plan.models]
        rows = [row for row in self._rows if row["set"] == SEARCH]
        return {
            "metrics": list(self._subject.search.metrics),
            "ended_by": self._search.ended_by,
            "exact": self._search.is_exact,
            "evaluations": len(rows),
            "failed": sum(row["failed"] is not None for row in rows),
            "generations": rows[-1]["generation"],
            "population": self.plan.population,
            "coordinates": [
                {"name": c.name, "about": c.about, "low": c.low, "high": c.high, "best": value}
                for c, value in zip(coordinates, best["x"], strict=True)
            ],
            "best": {"index": best["index"], "digest": best["digest"], "recipe": told["recipe"]},
            "scores": [self._scores(what) for what in whats],
        }

    def _scores(self, what: str) -> dict[str, Any]:
        test = self._row_of(TESTED, what) if self._subject.test else None
        search = self._row_of(SEARCH, what)
        about = {"x": search["x"], "digest": search["digest"]}
        return {"what": what, **about, SEARCH: search["metrics"], TESTED: test["metrics"] if test else None}

    def _of_best(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        """What an evaluation would tell of the best, on each set; None where it has no metrics there."""
        judges = {SEARCH: self._subject.search, TESTED: self._subject.test}
        return {
            part: {"metrics": scores[part], "counts": {"samples": len(judge.samples)}}
            if judge and scores[part] else None
            for part, judge in judges.items()
        }  # fmt: skip

    def _row_of(self, part: str, what: str) -> Row:
        """The row of what was judged: of the search the best of all points, or of those before its generations."""
        if part == TESTED or what not in (BEST, FIXED):
            return next(row for row in self._rows if row["set"] == part and row["what"] == what)
        points = [row for row in self._rows if row["set"] == part and row["x"] is not None]
        among = [row for row in points if what == BEST or row["generation"] == 0]
        return min(among, key=lambda row: (row["failed"] is not None, key_of(row, self._directions), row["index"]))

    def _point(self, what: str) -> tuple[float, ...]:
        return tuple(self._row_of(SEARCH, what)["x"])

    def _count(self, part: str) -> int:
        return sum(row["set"] == part for row in self._rows)

    def _refuse_without_score(self) -> None:
        rows = [row for row in self._rows if row["set"] == SEARCH and row["x"] is not None]
        if any(row["failed"] is None for row in rows):
            return
        codes = ", ".join(sorted({row["failed"] for row in rows}))
        raise EngineRefusal(
            "no_score",
            f"none of the {len(rows)} points that were tried first has a score ({codes}; the log says why of each): "
            "nothing can be searched by this objective on these models",
            {"field": "params.objective", "failed": len(rows)},
        )

    # ------------------------------------------------------------ what is told

    def _on_row(self) -> None:
        """After each row: progress, a checkpoint when one is due."""
        step, now = len(self._rows), self._context.elapsed()
        if step == self.total or now - self._told_at >= TELL_EVERY_S:
            self._told_at = now
            rate = round((step - self._kept) / max(now - self._begun_at, 1e-3), 2)
            self._context.events.emit("progress", step=step, total=self.total, unit="evaluation", rate=rate)
            self._context.log(f"evolve {step}/{self.total} {rate} evaluations/s")
        due = max(SAVE_EVERY_S, SAVE_SHARE * (now - self._begun_at))
        if now - self._saved_at >= due:
            self.save()
        if self._throttle_s:
            self._context.stop.wait(self._throttle_s)

    def save(self) -> None:
        """What is there so far is a checkpoint, and announced as one."""
        self._saved_at = self._context.elapsed()
        path = self._results.save()
        self._context.events.emit("checkpoint", step=len(self._results), path=path)

    def _tell_generation(self, number: int, rows: Sequence[Row]) -> None:
        """The best so far, and the mean of what was drawn, where this attempt has computed it; not of each of very
        quick generations."""
        now, over = self._context.elapsed(), number == self.plan.generations
        if rows[-1]["index"] < self._kept or (not over and now - self._scored_at < TELL_EVERY_S):
            return
        self._scored_at = now
        points = [row["score"] for row in rows if row["x"] is not None and row["failed"] is None]
        if self._search.best is not None:
            best = self._rows[self._search.best[0]]["score"]
            self._context.events.emit("metric", name="best", step=number, value=best)
        if points and number:
            self._context.events.emit("metric", name="mean", step=number, value=statistics.fmean(points))


def _place(part: str, ask: Ask) -> Row:
    """Where a row stands; of the test there are no generations."""
    point = None if ask.point is None else list(ask.point)
    return {"index": ask.index, "set": part, "generation": ask.generation, "what": ask.what, "x": point}
