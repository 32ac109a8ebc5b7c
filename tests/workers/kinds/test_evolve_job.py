"""One attempt of a search, from its document to its events, inside this process."""

from __future__ import annotations

import itertools
import json
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.workers.engines.builders import model
from tests.workers.engines.evaluations import DECODER, MLP, family_model, json_lines, texts
from tests.workers.kinds.builders import PARENTS, SAMPLES, Job, evolve_job, written
from tests.workers.kinds.disturbed import on_devices
from tests.workers.kinds.test_merge_job import asked_after
from workers.catalog import check_params
from workers.engines.candidates import Judge
from workers.engines.measuring import Measured
from workers.engines.producing import produce
from workers.engines.searching import Search
from workers.kinds import evaluate, evolve, merge
from workers.protocol import MAX_EVENT_LINE

TIES = {"strategy": "ties", "models": ["a", "b"], "base_model": "c", "density": 0.5}


def ledger(job: Job) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (job.output / "search" / "ledger.jsonl").read_text().splitlines()]


def summary(job: Job) -> dict[str, Any]:
    return json.loads((job.output / "search" / "search.json").read_text())


def refused(job: Job) -> list[tuple[str, str, str]]:
    """(code, field, message) of everything that the job was refused for."""
    assert job.run() == 2
    event = job.events[-1]
    problems = event["details"].get("problems") or [{**event["details"], **{n: event[n] for n in ("code", "message")}}]
    return [(p["code"], p.get("field", ""), p["message"]) for p in problems]


def scored(monkeypatch, score) -> None:
    """Every evaluation of a candidate gives what ``score`` says of its number; models as they are have 0."""
    numbers = itertools.count()

    def measured(self, model, device, must_stop):
        value = 0.0 if model.directory is not None else score(next(numbers))
        return Measured(dict.fromkeys(self.metrics, value), {"samples": 1, "not_finite": int(value is None)})

    monkeypatch.setattr(Judge, "measured", measured)


def test_a_search_leaves_its_ledger_its_summary_and_the_best_as_a_model(tmp_path: Path) -> None:
    job = evolve_job(tmp_path)
    assert job.run() == 0
    assert sorted(job.made) == [
        "best/config.json", "best/model.safetensors", "search/ledger.jsonl", "search/search.json",
    ]  # fmt: skip
    rows = ledger(job)
    assert [row["index"] for row in rows] == list(range(21))
    assert [(row["set"], row["generation"], row["what"]) for row in rows] == [
        ("search", 0, "model-0"), ("search", 0, "model-1"),
        ("search", 0, "start"), ("search", 0, "t = 0"), ("search", 0, "t = 1"),
        *(("search", generation, "candidate") for generation in (1, 2, 3) for _ in range(4)),
        ("test", -1, "best"), ("test", -1, "fixed"), ("test", -1, "model-0"), ("test", -1, "model-1"),
    ]  # fmt: skip
    assert [row["x"] for row in rows[2:5]] == [[0.5, 0.5], [0.0, 0.0], [1.0, 1.0]]
    assert all(0 <= value <= 1 for row in rows[5:17] for value in row["x"])
    assert [row["digest"] for row in rows[:2]] == [f"digest of {parent}" for parent in PARENTS[:2]]
    assert len({row["digest"] for row in rows[2:17]}) == 15


def test_the_ends_of_the_grid_score_as_the_models_that_they_are(tmp_path: Path) -> None:
    job = evolve_job(tmp_path)
    job.run()
    rows = ledger(job)
    assert [row["metrics"] for row in rows[:2]] == [row["metrics"] for row in rows[3:5]]


def test_the_best_is_by_the_first_metric_then_by_the_next_and_no_worse_than_what_was_tried_first(tmp_path) -> None:
    job = evolve_job(tmp_path)
    job.run()
    points = [row for row in ledger(job) if row["set"] == "search" and row["x"]]
    best = max(points, key=lambda row: (row["metrics"]["accuracy"], -row["metrics"]["loss"], -row["index"]))
    found = summary(job)
    assert found["best"]["index"] == best["index"]
    assert [c["best"] for c in found["coordinates"]] == best["x"]
    assert found["scores"][0]["search"] == best["metrics"]
    assert found["scores"][0]["search"]["accuracy"] >= max(row["score"] for row in points[:3])


def test_by_loss_alone_the_lowest_is_the_best(tmp_path: Path) -> None:
    job = evolve_job(tmp_path, {"objective": {"dataset": "d", "metrics": ["loss"]}})
    job.run()
    points = [row for row in ledger(job) if row["set"] == "search" and row["x"]]
    assert summary(job)["scores"][0]["search"] == {"loss": min(row["score"] for row in points)}


def test_search_and_test_stand_side_by_side_for_the_best_the_best_fixed_and_every_model(tmp_path: Path) -> None:
    job = evolve_job(tmp_path, {"merge": TIES, "space": [{"name": "density", "low": 0.1, "high": 1}], "budget": 30})
    assert job.run() == 0
    scores = {score["what"]: score for score in summary(job)["scores"]}
    assert list(scores) == ["best", "fixed", "model-0", "model-1", "base-model"]
    for what, score in scores.items():
        assert (score["search"].keys(), score["test"].keys()) == ({"accuracy", "loss"},) * 2, what
    alone = evaluation_of(tmp_path / "inputs" / "model-1", tmp_path / "inputs" / "test-dataset", tmp_path / "alone")
    assert scores["model-1"]["test"] == alone


def evaluation_of(model: Path, dataset: Path, work: Path) -> dict[str, float]:
    """The metrics that a job of kind evaluate finds."""
    (work / "inputs").mkdir(parents=True)
    (work / "inputs" / "model").symlink_to(model)
    (work / "inputs" / "dataset").symlink_to(dataset)
    named = dict(zip(("model", "dataset"), PARENTS, strict=True))
    job = written(work, "evaluate", {"model": "m", "dataset": "d", "batch_size": 16}, named)
    assert evaluate.run(job.context()) == 0
    return json.loads((job.evaluated / "metrics.json").read_text())["metrics"]


def test_the_best_is_judged_on_the_test_as_an_evaluation_of_what_was_stored_judges_it(tmp_path: Path) -> None:
    job = evolve_job(tmp_path)
    job.run()
    best = summary(job)["scores"][0]
    assert best["search"] == evaluation_of(job.output / "best", tmp_path / "inputs" / "dataset", tmp_path / "s")
    assert best["test"] == evaluation_of(job.output / "best", tmp_path / "inputs" / "test-dataset", tmp_path / "t")
    told = next(e["meta"]["scores"] for e in job.events if e.get("name") == "search" and e["type"] == "artifact")
    assert told == {part: {"metrics": best[part], "counts": {"samples": 40}} for part in ("search", "test")}


def test_the_best_has_the_bytes_and_the_lineage_of_the_merge_that_its_recipe_asks_for(tmp_path: Path) -> None:
    job = evolve_job(tmp_path)
    job.run()
    found = summary(job)
    recipe = found["best"]["recipe"]
    params = {**recipe, "models": ["a", "b"]}
    assert check_params("merge", params)[1] == []
    named = {f"model-{i}": artifact for i, artifact in enumerate(PARENTS)}
    (tmp_path / "merge").mkdir()
    (tmp_path / "merge" / "inputs").symlink_to(tmp_path / "inputs")
    other = written(tmp_path / "merge", "merge", params, named)
    assert merge.run(other.context()) == 0
    assert other.made["merged/model.safetensors"] == job.made["best/model.safetensors"]
    lineages = [next(e["meta"] for e in each.events if e["type"] == "artifact") for each in (job, other)]
    assert lineages[0] == lineages[1]
    assert (lineages[0]["parents"], lineages[0]["derivation_key"]) == (PARENTS, found["best"]["digest"])


def test_what_the_search_tells_names_all_that_it_was_made_of(tmp_path: Path) -> None:
    job = evolve_job(tmp_path)
    job.run()
    best, report = [e for e in job.events if e["type"] == "artifact"]
    assert [(e["name"], e["kind"]) for e in (best, report)] == [("best", "model"), ("search", "eval")]
    assert report["meta"]["parents"] == [*PARENTS, *SAMPLES]
    assert report["meta"]["best"] == best["meta"]["derivation_key"]
    assert set(report["meta"]["made_with"]) == {"cma", "numpy", "torch"}


def test_events_tell_the_best_so_far_and_the_mean_by_generation_and_the_scores_at_the_end(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(evolve, "TELL_EVERY_S", 0.0)
    job = evolve_job(tmp_path)
    job.run()
    rows, told = ledger(job), [e for e in job.events if e["type"] == "metric"]
    series = {name: [e["value"] for e in told if e["name"] == name] for name in ("best", "mean")}
    points = [row for row in rows if row["set"] == "search" and row["x"]]
    by_generation = [[row["score"] for row in points if row["generation"] == n] for n in range(4)]
    assert series["mean"] == [pytest.approx(sum(each) / len(each)) for each in by_generation[1:]]
    assert series["best"] == [max(itertools.chain(*by_generation[: n + 1])) for n in range(4)]
    assert [e["step"] for e in told if e["name"] == "best"] == [0, 1, 2, 3]
    scores = {e["name"]: e["value"] for e in told if e["name"] not in series}
    assert scores == {
        f"{part} {score['what']}": score[part]["accuracy"]
        for score in summary(job)["scores"]
        for part in ("search", "test")
    }
    assert [e["type"] for e in job.events[-2:]] == ["artifact", "done"]
    progress = [e for e in job.events if e["type"] == "progress"]
    assert [(p["step"], p["total"], p["unit"]) for p in progress] == [(n, 21, "evaluation") for n in range(1, 22)]


# ------------------------------------------------------------ preempted, killed, on several devices


def test_stopped_after_every_evaluation_it_leaves_the_bytes_of_an_undisturbed_run(tmp_path, monkeypatch) -> None:
    devices = itertools.cycle([1, 2, 4])
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    undisturbed = evolve_job(tmp_path / "b")
    assert undisturbed.run() == 0
    job = evolve_job(tmp_path / "a")
    codes: list[int] = []
    while not codes or codes[-1] == 85:
        on_devices(monkeypatch, next(devices))
        codes.append(job.run(asked_after(1)))
        job = job.next_attempt() if codes[-1] == 85 else job
    assert (len(codes) > 8, codes[-1], job.made) == (True, 0, undisturbed.made)


class Killed(BaseException):
    """The process is gone: nothing is saved on the way out."""


@pytest.mark.parametrize("at", range(21))
def test_killed_at_any_evaluation_it_leaves_the_bytes_of_an_undisturbed_run(at: int, tmp_path, monkeypatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.setattr(evolve, "SAVE_EVERY_S", 0.0)
    monkeypatch.setattr(evolve, "SAVE_SHARE", 0.0)
    undisturbed = evolve_job(tmp_path / "b", EMEP_GPU_COUNT="1")
    assert undisturbed.run() == 0
    job = evolve_job(tmp_path / "a", EMEP_GPU_COUNT="1")
    plain = Judge.measured
    with monkeypatch.context() as patch:
        count = itertools.count()

        def measured(self, model, device, must_stop):
            if next(count) == at:
                raise Killed
            return plain(self, model, device, must_stop)

        patch.setattr(Judge, "measured", measured)
        with pytest.raises(Killed):
            job.run()
    saved = [p.name for p in job.checkpoint.iterdir()]
    assert saved == ([f"step-{at}"] if at else [])
    again = job.next_attempt()
    assert again.run() == 0
    assert again.made == undisturbed.made


def one_more():
    """Asked to stop after the first tensor."""
    looks = itertools.count()
    return lambda: next(looks) >= 1


def test_asked_to_stop_while_the_best_is_written_it_goes_on_there(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    undisturbed = evolve_job(tmp_path / "b")
    undisturbed.run()
    job = evolve_job(tmp_path / "a")
    with monkeypatch.context() as patch:
        patch.setattr(evolve, "produce", lambda *args, **stops: produce(*args, **{**stops, "should_stop": one_more()}))
        assert job.run() == 85
    assert sorted(p.name for p in job.checkpoint.iterdir()) == ["framework", "step-21"]
    evaluated: list[Any] = []
    monkeypatch.setattr(Judge, "measured", lambda *args: evaluated.append(args))
    again = job.next_attempt()
    assert (again.run(), again.made, evaluated) == (0, undisturbed.made, [])


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("config", [MLP, DECODER], ids=["mlp", "decoder"])
def test_on_several_devices_it_leaves_the_bytes_of_one(config, devices: int, tmp_path: Path, monkeypatch) -> None:
    made = []
    for count in (1, devices):
        place = tmp_path / str(count)
        place.mkdir()
        on_devices(monkeypatch, count)
        job = evolve_job(place)
        if config is DECODER:
            for seed, name in enumerate(("model-0", "model-1")):
                family_model(place / "inputs" / name, DECODER, seed)
            for seed, name in enumerate(("dataset", "test-dataset")):
                json_lines(place / "inputs" / name / "rows.jsonl", texts(20, seed))
        assert job.run() == 0
        made.append(job.made)
    assert made[0] == made[1]


def test_several_candidates_are_in_hand_at_once(tmp_path: Path, monkeypatch) -> None:
    on_devices(monkeypatch, 4)
    together, plain = threading.Barrier(4), Judge.measured

    def measured(self, model, device, must_stop):
        if model.label == "candidate":
            together.wait(20)
        return plain(self, model, device, must_stop)

    monkeypatch.setattr(Judge, "measured", measured)
    assert evolve_job(tmp_path).run() == 0


def test_a_ledger_that_another_machine_drew_is_gone_on_from_and_that_is_told(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    job = evolve_job(tmp_path)
    assert job.run(asked_after(12)) == 85
    kept = len((job.checkpoint / next(job.checkpoint.iterdir()).name / "rows-0.jsonl").read_text().splitlines())
    plain = Search.due

    def due(self) -> Sequence[Any]:
        asks = plain(self)
        return [
            type(ask)(ask.index, ask.generation, ask.what, tuple(min(v + 1e-12, 1.0) for v in ask.point))
            if ask.what == "candidate" and ask.index < kept else ask
            for ask in asks
        ]  # fmt: skip

    monkeypatch.setattr(Search, "due", due)
    again = job.next_attempt()
    assert again.run() == 0
    assert "resume: inexact: the points of generation 1 were drawn on another type of CPU" in capsys.readouterr().out
    assert summary(again)["exact"] is False
    assert len(ledger(again)) == 21


@pytest.mark.parametrize(
    "changed", [{"seed": 6}, {"sigma": 0.3}, {"population": 5}, {"objective": {"dataset": "d", "metrics": ["loss"]}}]
)
def test_the_ledger_of_another_search_is_not_gone_on_from(changed, tmp_path: Path, capsys) -> None:
    job = evolve_job(tmp_path)
    assert job.run(asked_after(3)) == 85
    document = json.loads((tmp_path / "job.json").read_text())
    document["params"] |= changed
    (tmp_path / "job.json").write_text(json.dumps(document))
    assert job.next_attempt().run() == 0
    assert "resume: 0 of " in capsys.readouterr().out


# ------------------------------------------------------------ what fails


def test_a_candidate_without_a_score_is_tried_again_recorded_and_ends_nothing(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    job = evolve_job(tmp_path, EMEP_GPU_COUNT="1")
    scored(monkeypatch, lambda number: None if number in (4, 5, 9) else number / 100)
    assert job.run() == 0
    failed = [(row["index"], row["failed"], row["score"], row["tries"]) for row in ledger(job)[:17] if row["tries"] > 1]
    assert [each[1:] for each in failed if each[1]] == [("not_finite", None, 2)]
    assert len(failed) == 2, "one failed twice, one only once"
    assert summary(job)["failed"] == 1
    assert "has failed (not_finite): accuracy is no finite number" in capsys.readouterr().out


def test_where_no_point_has_a_score_the_job_is_refused_and_what_was_tried_is_kept(tmp_path: Path, capsys) -> None:
    job = evolve_job(tmp_path, {"merge": {"strategy": "slerp", "models": ["a", "b"], "out_dtype": "float16"}})
    for name in ("model-0", "model-1"):
        family_model(tmp_path / "inputs" / name, MLP, 1, _0__weight=torch.full((7, 5), 1e6))
    ((code, field, message),) = refused(job)
    assert (code, field) == ("no_score", "params.objective")
    assert "none of the 3 points that were tried first has a score (nonfinite_output; the log" in message
    assert [e["step"] for e in job.events if e["type"] == "checkpoint"] == [5]
    assert "evaluation 2 (start) has failed (nonfinite_output): tensor '0.weight'" in capsys.readouterr().out
    assert job.made == {}


def test_a_setting_that_no_merge_can_have_is_a_failed_candidate(tmp_path: Path) -> None:
    """Weights of no sum: only of the grid's middle is it so."""
    space = [{"name": "weights", "low": -1.0, "high": 1.0, "per": "all"}]
    job = evolve_job(tmp_path, {"merge": {"strategy": "linear", "models": ["a", "b"]}, "space": space, "budget": 20})
    assert job.run() == 0
    assert [(row["x"], row["failed"]) for row in ledger(job) if row["failed"]] == [([0.0, 0.0], "zero_sum")]


def test_a_point_that_was_there_before_has_what_was_found_then(tmp_path: Path, monkeypatch) -> None:
    job = evolve_job(tmp_path, EMEP_GPU_COUNT="1")
    evaluated: list[str] = []
    plain, merged = Search.due, Judge.measured

    def due(self):
        """Of each generation the second is the first once more, and the last the middle of the grid."""
        asks = plain(self)
        if not asks or asks[0].generation == 0:
            return asks
        point = [asks[0].point, asks[0].point, asks[2].point, (0.5, 0.5)]
        return [type(a)(a.index, a.generation, a.what, p) for a, p in zip(asks, point, strict=True)]

    def measured(self, model, device, must_stop):
        evaluated.append(model.label)
        return merged(self, model, device, must_stop)

    monkeypatch.setattr(Search, "due", due)
    monkeypatch.setattr(Judge, "measured", measured)
    assert job.run() == 0
    rows = ledger(job)
    assert [row["same_as"] for row in rows[5:17]] == [None, 5, None, 2, None, 9, None, 2, None, 13, None, 2]
    assert all(rows[row["same_as"]]["metrics"] == row["metrics"] for row in rows if row["same_as"] is not None)
    assert evaluated.count("candidate") == 6


def test_an_exception_ends_the_job_and_a_retry_goes_on_before_it(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    undisturbed = evolve_job(tmp_path / "b", EMEP_GPU_COUNT="1")
    undisturbed.run()
    job = evolve_job(tmp_path / "a", EMEP_GPU_COUNT="1")
    plain = Judge.measured
    with monkeypatch.context() as patch:
        count = itertools.count()

        def measured(self, model, device, must_stop):
            if next(count) == 8:
                raise OSError("disk on fire")
            return plain(self, model, device, must_stop)

        patch.setattr(Judge, "measured", measured)
        with pytest.raises(OSError, match="disk on fire"):
            job.run()
    assert [(e["type"], e["step"]) for e in job.events][-1] == ("checkpoint", 8)
    again = job.next_attempt()
    assert (again.run(), again.made) == (0, undisturbed.made)


@pytest.mark.parametrize(("rule", "sizes", "copied"), [("first", [5, 8, 3], 3), ("min", [5, 7, 4], 0)])
def test_models_that_differ_are_searched_as_on_mismatch_says(rule, sizes, copied, tmp_path: Path, capsys) -> None:
    """A model that is not what the candidates are has no score beside them."""
    job = evolve_job(tmp_path, {"merge": {"strategy": "slerp", "models": ["a", "b"], "on_mismatch": rule}})
    family_model(tmp_path / "inputs" / "model-1", {**MLP, "layer_sizes": sizes}, 1)
    assert job.run() == 0
    rows = ledger(job)
    assert [(r["what"], r["set"], r["failed"]) for r in rows if r["failed"]] == [
        ("model-1", "search", "shape_mismatch"), ("model-1", "test", "shape_mismatch"),
    ]  # fmt: skip
    assert "evaluation 1 (model-1) has failed (shape_mismatch): " in capsys.readouterr().out
    assert {s["what"]: s["search"] is None for s in summary(job)["scores"]} == {
        "best": False, "fixed": False, "model-0": False, "model-1": True,
    }  # fmt: skip
    best, first = (load_file(at / "model.safetensors") for at in (job.output / "best", tmp_path / "inputs" / "model-0"))
    assert {n: t.shape for n, t in best.items()} == {n: t.shape for n, t in first.items()}
    assert sum(torch.equal(best[name], first[name]) for name in best) == copied
    assert summary(job)["best"]["recipe"]["on_mismatch"] == rule


# ------------------------------------------------------------ refused before the first read


def test_a_node_without_cma_refuses_the_search_and_says_what_to_install(tmp_path: Path, monkeypatch) -> None:
    job = evolve_job(tmp_path)
    monkeypatch.setitem(sys.modules, "cma", None)
    assert [code for code, _, _ in refused(job)] == ["no_cma"]
    assert job.events[-1]["details"] == {"package": "cma"}
    assert "install there what requirements/node.txt lists" in job.events[-1]["message"]
    assert not job.checkpoint.exists() or not list(job.checkpoint.iterdir())


def test_everything_that_is_wrong_is_told_together_by_where_it_stands(tmp_path: Path) -> None:
    job = evolve_job(tmp_path)
    family_model(tmp_path / "inputs" / "model-0", {**MLP, "layer_sizes": [5, 7, 4]})
    family_model(tmp_path / "inputs" / "model-1", {**MLP, "layer_sizes": [5, 7, 4]})
    (tmp_path / "inputs" / "model-0" / "config.json").write_text(json.dumps(MLP))
    json_lines(tmp_path / "inputs" / "dataset" / "rows.jsonl", [{"input": [0] * 5, "label": 9}])
    told = refused(job)
    assert [(code, field) for code, field, _ in told] == [
        ("shape_mismatch", "params.merge.models"), ("shape_mismatch", "params.merge.models"),
    ]  # fmt: skip
    (tmp_path / "inputs" / "model-0" / "config.json").write_text(json.dumps({**MLP, "layer_sizes": [5, 7, 4]}))
    json_lines(tmp_path / "inputs" / "test-dataset" / "rows.jsonl", [{"input": [0] * 4, "label": 0}])
    told = refused(job.next_attempt())
    assert [(code, field) for code, field, _ in told] == [
        ("label_out_of_range", "params.objective.dataset"), ("wrong_length", "params.test.dataset"),
    ]  # fmt: skip


def test_wrong_parameters_and_models_that_do_not_match_are_told_together(tmp_path: Path) -> None:
    job = evolve_job(tmp_path, {"budget": 0, "space": [{"name": "t", "low": 0, "high": 2}]})
    family_model(tmp_path / "inputs" / "model-1", {**MLP, "layer_sizes": [5, 8, 3]})
    told = refused(job)
    assert [field for _, field, _ in told[:2]] == ["params.space.0.high", "params.budget"]
    assert {code for code, _, _ in told[2:]} == {"shape_mismatch"}


@pytest.mark.parametrize(
    ("params", "code", "field", "words"),
    [
        ({"space": [{"name": "t", "low": 0, "high": 1, "per": "group", "groups": ["attn"]}]}, "fits_no_tensor",
         "params.space.0.groups.0", "group 'attn': it fits no tensor"),
        ({"budget": 10, "population": None}, "out_of_range", "params.budget", "budget must be at least 11"),
        ({"objective": {"dataset": "d", "metrics": ["perplexity"]}}, "mismatch", "params.objective.metrics",
         "perplexity can't be told of the architecture mlp"),
        ({"objective": {"dataset": "d", "file": "other.jsonl"}}, "no_such_file", "params.objective.file",
         "other.jsonl"),
        ({"test": {"dataset": "e", "file": "other.jsonl"}}, "no_such_file", "params.test.file", "other.jsonl"),
        ({"merge": {"strategy": "slerp", "models": ["a", "b"], "tokenizer_source": "b"}}, "no_tokenizer", "", "b"),
    ],
)  # fmt: skip
def test_what_the_models_and_files_do_not_allow_is_refused_by_name(params, code, field, words, tmp_path: Path) -> None:
    told = refused(evolve_job(tmp_path, params))
    assert [(c, f) for c, f, _ in told] == [(code, field)]
    assert words in told[0][2]


def test_a_test_on_the_data_of_the_search_is_refused(tmp_path: Path) -> None:
    job = evolve_job(tmp_path)
    document = json.loads((tmp_path / "job.json").read_text())
    document["inputs"][3]["artifact"] = document["inputs"][2]["artifact"]
    (tmp_path / "job.json").write_text(json.dumps(document))
    assert [(code, field) for code, field, _ in refused(job)] == [("same_data", "params.test.dataset")]


def test_models_without_numbers_in_their_names_have_no_layers(tmp_path: Path) -> None:
    job = evolve_job(tmp_path, {"objective": {"dataset": "d", "architecture": MLP}})
    for seed, name in enumerate(("model-0", "model-1")):
        generator = torch.Generator().manual_seed(seed)
        model(tmp_path / "inputs" / name, {"net.weight": torch.randn(3, 5, generator=generator)})
    codes = [(code, field) for code, field, _ in refused(job)]
    assert ("no_layers", "params.space.0.per") in codes
    assert ("missing_tensor", "params.merge.models") in codes


@pytest.mark.parametrize("free", [10, 2000])
def test_a_candidate_that_the_memory_has_no_room_for_is_refused_with_both_numbers(free, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(evolve, "room", lambda: free)
    ((code, _, message),) = refused(evolve_job(tmp_path))
    assert code == "no_memory"
    assert f"the job's limit leaves {free}" in message


def test_where_memory_is_for_fewer_candidates_the_other_devices_are_not_used(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    on_devices(monkeypatch, 4)
    monkeypatch.setattr(evolve, "room", lambda: 10**9)
    monkeypatch.setattr(evolve, "memory_estimate", lambda candidate, workers: workers * 4 * 10**8)
    assert evolve_job(tmp_path).run() == 0
    out = capsys.readouterr().out
    assert "memory for 2 of 4 candidates at once: the other devices are not used" in out
    assert ", 2 at once, judged by accuracy, loss" in out


def test_a_long_space_leaves_events_that_can_be_read(tmp_path: Path) -> None:
    job = evolve_job(tmp_path, {"space": [{"name": "t", "low": 0, "high": 1, "per": "layer", "anchors": 200}]})
    assert job.run() == 0
    assert max(map(len, (tmp_path / "events").read_bytes().splitlines())) < MAX_EVENT_LINE
    best = next(e for e in job.events if e["type"] == "artifact")
    assert set(best["meta"]["recipe"]) == {"sha256", "bytes"}
    assert len(summary(job)["best"]["recipe"]["t"]) == 200


def test_the_log_tells_what_is_done_in_its_order(tmp_path: Path, capsys) -> None:
    evolve_job(tmp_path, EMEP_GPU_COUNT="1").run()
    out = capsys.readouterr().out.splitlines()
    words = [line.split()[0].rstrip(":") for line in out]
    assert [w for i, w in enumerate(words) if i == 0 or w != words[i - 1]] == [
        "torch", "load", "plan", "evolve", "search", "evolve", "store",
    ]  # fmt: skip
    assert (
        "plan: 2 coordinates (t, layer 1 of 2, t, layer 2 of 2), 2 models and 3 points first, then up to 3 generations"
        " of 4, 1 at once, judged by accuracy, loss"
    ) in out


def test_without_a_test_set_the_best_has_only_the_score_of_the_search(tmp_path: Path) -> None:
    job = evolve_job(tmp_path, test=False)
    assert job.run() == 0
    assert len(ledger(job)) == 17
    assert {score["test"] for score in summary(job)["scores"]} == {None}
    assert not [e for e in job.events if e.get("name", "").startswith("test ")]
    told = next(e["meta"]["scores"] for e in job.events if e.get("name") == "search" and e["type"] == "artifact")
    assert (told["test"], told["search"]["metrics"]) == (None, summary(job)["scores"][0]["search"])
