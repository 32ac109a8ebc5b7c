"""Merges at several t, evaluates each, and keeps the best under a name of one's choice: one pipeline, then one upload.

Standard library only. EMEP_URL and EMEP_TOKEN (scopes of jobs and artifacts) say where and as whom.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any

ENDED = ("SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED")
LOWER = ("loss", "perplexity", "bits_per_byte")
ASK_EVERY_S = 5.0
T = tuple(round(0.1 * step, 1) for step in range(1, 10))
Call = Callable[[str, str, Any], dict[str, Any]]


def pipeline(
    project: str, models: Sequence[str], dataset: str, metric: str, values: Sequence[float] = T
) -> dict[str, Any]:
    """The body of ``POST jobs/pipeline/``: a merge for each t, and its evaluation after it."""
    common, jobs = {"project": project, "gpu_count": 1, "max_duration": "1h"}, list[dict[str, Any]]()
    for t in values:
        merge, name = f"merge-{t}", f"slerp-t{t}"
        params = {"strategy": "slerp", "t": t, "models": list(models)}
        jobs.append({**common, "key": merge, "name": name, "kind": "merge", "params": params})
        params = {"model": f"@{merge}", "dataset": dataset, "metrics": [metric]}
        jobs.append({**common, "key": f"evaluate-{t}", "name": f"{name}-on-{dataset}"[:100], "kind": "evaluate",
                     "after": [merge], "params": params})  # fmt: skip
    return {"jobs": jobs}


def ended(call: Call, pipeline_id: str) -> dict[str, dict[str, Any]]:
    """The jobs of the pipeline by their keys, once each has ended; of a job and its retries one that succeeded."""
    while True:
        rows = call("GET", f"jobs/?pipeline={pipeline_id}&limit=200", None)["results"]
        if all(row["state"] in ENDED for row in rows):
            found: dict[str, dict[str, Any]] = {}
            for row in rows:
                if row["key"] not in found or row["state"] == "SUCCEEDED":
                    found[row["key"]] = row
            return found
        time.sleep(ASK_EVERY_S)


def scores(call: Call, jobs: Mapping[str, Mapping[str, Any]], metric: str, values: Sequence[float] = T) -> list[Any]:
    """``(t, id of the model, value)`` of each candidate whose evaluation succeeded with a number, in the order of t."""
    found = []
    for t in values:
        merge, evaluation = jobs.get(f"merge-{t}"), jobs.get(f"evaluate-{t}")
        if merge is None or evaluation is None or evaluation["state"] != "SUCCEEDED":
            continue
        model, told = (call("GET", f"jobs/{job['id']}/", None)["artifacts"][0]["id"] for job in (merge, evaluation))
        value = call("GET", f"artifacts/{told}/", None)["meta"]["metrics"].get(metric)
        if isinstance(value, (int, float)) and math.isfinite(value):
            found.append((t, model, value))
    return found


def best(found: Sequence[tuple[float, str, float]], metric: str) -> tuple[float, str, float]:
    """The best of the scores, of equal ones that of the lowest t. Raises SystemExit where there is none."""
    if not found:
        raise SystemExit("no candidate has a score: the pages of the evaluations say why; nothing was kept")
    sign = 1.0 if metric in LOWER else -1.0
    return min(found, key=lambda each: (sign * each[2], each[0]))


def keep(call: Call, model: str, name: str) -> str:
    """The model is known by this name too; returns its id. Its bytes are stored already, so that none are sent."""
    artifact = call("GET", f"artifacts/{model}/", None)
    files = [{name: file[name] for name in ("path", "size", "sha256")} for file in artifact["files"]]
    asked = {"project": artifact["project"], "name": name, "kind": artifact["kind"], "files": files}
    upload = call("POST", "artifacts/", asked)["upload"]
    return str(call("POST", f"artifacts/uploads/{upload}/commit/", {})["id"])


def over_http(url: str, token: str) -> Call:
    """Calls REST at this address with this token; a refusal ends the program with its words."""

    def call(method: str, path: str, body: Any) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        if data is not None and path.startswith("jobs/"):
            headers["Idempotency-Key"] = hashlib.sha256(data).hexdigest()  # asked again it is the same pipeline
        request = urllib.request.Request(f"{url}/api/v1/{path}", data, headers, method=method)  # noqa: S310
        try:
            with urllib.request.urlopen(request) as answer:  # noqa: S310 - the address is its user's own
                return dict(json.load(answer))
        except urllib.error.HTTPError as refused:
            raise SystemExit(f"{method} {path}: {refused.code} {refused.read().decode()}") from refused

    return call


def main(call: Call, asked: argparse.Namespace) -> int:
    """All of it; prints the scores, and which was kept."""
    body = pipeline(asked.project, asked.models, asked.dataset, asked.metric)
    made = call("POST", "jobs/pipeline/", body)["id"]
    sys.stdout.write(f"pipeline {made}\n")
    found = scores(call, ended(call, made), asked.metric)
    for t, _, value in found:
        sys.stdout.write(f"t = {t}: {asked.metric} {value:.6g}\n")
    t, model, value = best(found, asked.metric)
    sys.stdout.write(
        f"t = {t} is the best of {len(found)} ({value:.6g}): {asked.keep} is {keep(call, model, asked.keep)}\n"
    )
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs=2, help="two models by name or id")
    parser.add_argument("--dataset", required=True, help="by what they are judged")
    parser.add_argument("--metric", default="accuracy", help="accuracy, or one of which less is better")
    parser.add_argument("--project", default="alpha")
    parser.add_argument("--keep", required=True, metavar="NAME", help="what the best is called from then on")
    given = parser.parse_args()
    sys.exit(main(over_http(os.environ["EMEP_URL"].rstrip("/"), os.environ["EMEP_TOKEN"]), given))
