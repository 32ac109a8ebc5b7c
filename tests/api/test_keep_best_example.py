"""The example that keeps the best of a sweep does so over REST: which one, under which name, and when none."""

from __future__ import annotations

import argparse
import importlib.util
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.conf import settings

from scheduling.models import Artifact, Job, JobOutput
from tests import builders as b
from tests.api.calls import World, world

pytestmark = pytest.mark.django_db

SIZES = (64, 8, 10)


def example() -> Any:
    path = settings.BASE_DIR / "examples" / "keep_best" / "keep_best.py"
    spec = importlib.util.spec_from_file_location("keep_best", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ends(w: World, pipeline: str, values: dict[str, Any]) -> None:
    """Each evaluation has found its value, or has failed (``FAILED``)."""
    for job in Job.objects.filter(member_of=pipeline):
        what, _, t = job.key.partition("-")
        state = "FAILED" if what == "evaluate" and values[t] == "FAILED" else "SUCCEEDED"
        if what == "merge":
            model = b.mlp(w.who["alice"], job.name, int(float(t) * 10), sizes=SIZES)
            JobOutput.objects.create(job=job, artifact_id=model, name=job.name)
        elif state == "SUCCEEDED":
            made = Artifact.objects.create(
                project=job.project, digest=f"sha256:{job.pk.hex * 2}", name="e", kind="eval", size=1, files=[],
                job=job, meta={"metrics": {"accuracy": values[t]}}, created_at=b.NOON, published=True,
            )  # fmt: skip
            JobOutput.objects.create(job=job, artifact=made, name="evaluation")
        Job.objects.filter(pk=job.pk).update(state=state, ended_at=b.NOON)


def kept(w: World, **odd: Any) -> Artifact:
    """What is called ``kept`` when the program has ended; of t that are not named the accuracy is 0.5."""
    alice, caller = w.who["alice"], w.alice
    models = [b.mlp(alice, name, seed, sizes=SIZES) for name, seed in (("a1", 101), ("b1", 102))]
    b.dataset(alice, "tests")

    def call(method: str, path: str, body: Any) -> dict[str, Any]:
        answer = caller(method, path, body)
        assert answer.status_code < 300, answer.content
        told = json.loads(answer.content)
        if path == "jobs/pipeline/":
            ends(w, told["id"], {str(t): odd.get(f"t{round(t * 10)}", 0.5) for t in example().T})
        return told

    asked = argparse.Namespace(models=models, dataset="tests", metric="accuracy", project="alpha", keep="kept")
    assert example().main(call, asked) == 0
    (found,) = caller.get("artifacts/?q=kept").json()["results"]
    return Artifact.objects.get(pk=found["id"])


def test_the_best_is_known_by_the_name_and_has_its_own_still(capsys: Any) -> None:
    w = world()
    assert kept(w, t3=0.75, t7=0.625).name == "slerp-t0.3"
    (model,) = w.alice.get("artifacts/?q=slerp-t0.3").json()["results"]
    assert "kept" in [each["name"] for each in model["also"]]
    assert "t = 0.3 is the best of 9 (0.75): kept is " in capsys.readouterr().out
    assert Job.objects.filter(member_of__isnull=False).count() == 18


def test_of_equal_values_the_lowest_t_is_kept() -> None:
    assert kept(world(), t4=0.75, t6=0.75).name == "slerp-t0.4"


def test_a_failed_candidate_and_one_without_a_number_are_not_in_the_choice(capsys: Any) -> None:
    assert kept(world(), t1="FAILED", t2=None, t9=0.625).name == "slerp-t0.9"
    assert "best of 7" in capsys.readouterr().out


def test_where_no_candidate_has_a_score_nothing_is_kept() -> None:
    w = world()
    with pytest.raises(SystemExit, match="nothing was kept"):
        kept(w, **{f"t{n}": "FAILED" if n % 2 else None for n in range(1, 10)})
    assert w.alice.get("artifacts/?q=kept").json()["results"] == []


@pytest.mark.parametrize(
    ("metric", "t"), [("accuracy", 0.2), ("loss", 0.1), ("perplexity", 0.1), ("bits_per_byte", 0.1)]
)
def test_of_losses_the_lowest_is_the_best(metric: str, t: float) -> None:
    assert example().best([(0.1, "a", 1.0), (0.2, "b", 2.0)], metric)[0] == t


def test_of_a_job_and_its_retry_the_one_that_succeeded_counts() -> None:
    rows = [{"key": "a", "state": state, "n": n} for n, state in enumerate(("FAILED", "SUCCEEDED", "CANCELLED"))]
    assert example().ended(lambda *_: {"results": rows}, "x")["a"]["n"] == 1


class Echo(BaseHTTPRequestHandler):
    """Says what it was asked; of what ends in ``none/`` that there is none."""

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        told = {"asked": f"{self.command} {self.path}", "body": body, **{n.lower(): v for n, v in self.headers.items()}}
        self.send_response(404 if self.path.endswith("none/") else 200)
        self.end_headers()
        self.wfile.write(json.dumps(told).encode())

    do_GET = do_POST = answer

    def log_message(self, *_: Any) -> None:
        """Nothing of it belongs in a test's output."""


@pytest.fixture
def call() -> Iterator[Any]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield example().over_http(f"http://127.0.0.1:{server.server_port}", "secret")
    server.shutdown()
    thread.join()
    server.server_close()


def test_over_http_it_says_who_asks_and_asks_twice_for_one_pipeline(call: Any) -> None:
    first, again, other = (call("POST", "jobs/pipeline/", {"jobs": [n]}) for n in (1, 1, 2))
    assert (first["asked"], first["body"]) == ("POST /api/v1/jobs/pipeline/", '{"jobs": [1]}')
    assert (first["authorization"], first["content-type"]) == ("Bearer secret", "application/json")
    assert first["idempotency-key"] == again["idempotency-key"] != other["idempotency-key"]
    assert "idempotency-key" not in call("GET", "jobs/?pipeline=x", None)


def test_a_refusal_ends_it_with_the_words_of_the_server(call: Any) -> None:
    with pytest.raises(SystemExit, match=r"GET artifacts/none/: 404 .*/artifacts/none/"):
        call("GET", "artifacts/none/", None)
