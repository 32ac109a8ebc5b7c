"""A batch inference is refused before it waits for all that headers, configuration and names of files can tell."""

from __future__ import annotations

import json

import pytest

from scheduling.models import Job
from scheduling.services import jobs, whatif
from scheduling.services.jobs import Refused
from tests import builders as b

pytestmark = pytest.mark.django_db
SIZES = (4, 3)
CONFIG = {"model_type": "mlp", "layer_sizes": list(SIZES)}
DECODER = {"model_type": "decoder", "num_layers": 1, "width": 4, "heads": 1, "context": 8, "characters": "ab"}


@pytest.fixture
def who():
    return b.people()


def faults(actor, body) -> list[tuple[str, str, str]]:
    """(field, code, message) of everything that is wrong."""
    result = jobs.submit(body, actor, b.NOON)
    assert isinstance(result, Refused), result
    return [(e["field"], e["code"], e["message"]) for e in result.errors]


def test_it_waits_in_the_inference_queue_with_its_two_inputs(who):
    model, data = b.mlp(who["alice"], "net", sizes=SIZES), b.dataset(who["alice"], "rows")
    body = {n: v for n, v in b.infer_body("net", "rows").items() if n not in ("queue", "priority")}
    job = Job.objects.get(pk=b.submitted(who["alice"], body))
    assert (job.state, job.queue.name, job.level.name) == ("QUEUED", "inference", "Normal")
    assert job.params == {"model": "net", "input": "rows", "max_bad_rows": 0, "batch_size": 32}
    assert [(i["as"], i["artifact"]) for i in job.spec["inputs"]] == [("model", model), ("input", data)]


def test_it_may_be_realtime_of_whom_may_ask_for_it(who):
    b.mlp(who["alice"], "net", sizes=SIZES)
    b.dataset(who["alice"], "rows")
    job = Job.objects.get(pk=b.submitted(who["admin"], b.infer_body("net", "rows", priority="Realtime")))
    assert (job.queue.name, job.level.name) == ("inference", "Realtime")


@pytest.mark.parametrize(
    ("model", "data", "told"),
    [
        ("nett", "row", [("params.model", "no_such_artifact",
                          "there is no artifact 'nett' in your projects (did you mean 'net'?)"),
                         ("params.input", "no_such_artifact",
                          "there is no artifact 'row' in your projects (did you mean 'rows'?)")]),
        ("rows", "net", [("params.model", "not_a_model", "'rows' is a dataset, not a model"),
                         ("params.input", "not_a_dataset", "'net' is a model, not a dataset")]),
    ],
)  # fmt: skip
def test_model_and_rows_are_artifacts_of_their_kinds(who, model, data, told):
    b.mlp(who["alice"], "net", sizes=SIZES)
    b.dataset(who["alice"], "rows")
    assert faults(who["alice"], b.infer_body(model, data)) == told


@pytest.mark.parametrize(
    ("config", "params", "field", "code", "words"),
    [
        (b"{}", {}, "params.model", "required", "config.json of 'net': model_type is missing"),
        (json.dumps({**CONFIG, "layer_sizes": [4, 4]}).encode(), {}, "params.model", "shape_mismatch",
         "tensor '0.weight' is 3 x 4 in 'net' and 4 x 4 by its architecture"),
        (json.dumps(CONFIG).encode(), {"temperature": 1, "logprobs": True}, "params.temperature", "mismatch",
         "temperature can't be asked of the architecture mlp"),
        (json.dumps(CONFIG).encode(), {"file": "x.csv"}, "params.file", "no_such_file", "'rows' has no file 'x.csv'"),
        (b"{}", {"architecture": {**CONFIG, "layer_sizes": [4, 3, 3]}}, "params.model", "missing_tensor",
         "'net' lacks 2.weight, 2.bias, which the architecture mlp has"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_field(who, config, params, field, code, words):
    b.mlp(who["alice"], "net", sizes=SIZES, config=config)
    b.dataset(who["alice"], "rows")
    found = faults(who["alice"], b.infer_body("net", "rows", params=params))
    assert (found[0][:2], words in found[0][2]) == ((field, code), True), found


def test_all_of_it_is_told_at_once_and_with_the_other_fields(who):
    b.mlp(who["alice"], "net", sizes=SIZES, config=json.dumps(DECODER).encode())
    b.artifact(who["alice"], "rows", {"x.safetensors": b.tensors(), "README": b""}, kind="dataset")
    params = {"max_new_tokens": -1, "batch_size": 0, "colour": "red"}
    found = faults(who["alice"], b.infer_body("net", "rows", params=params, max_duration="long"))
    assert {(field, code) for field, code, _ in found} == {
        ("max_duration", "bad_duration"), ("params.colour", "unknown_field"),
        ("params.max_new_tokens", "out_of_range"), ("params.batch_size", "out_of_range"),
        ("params.model", "missing_tensor"), ("params.model", "unknown_tensor"),
        ("params.input", "unsupported_format"),
    }  # fmt: skip


def test_the_same_inference_is_offered_the_one_that_is_to_be_made(who):
    model, data = b.mlp(who["alice"], "net", sizes=SIZES), b.dataset(who["alice"], "rows")
    b.node("n1")
    job = b.submitted(who["alice"], b.infer_body("net", "rows"))
    assert whatif.plan(b.infer_body(model, data, name="again"), who["alice"], b.later(1)).same["job"] == job
    assert whatif.plan(b.infer_body(model, data, params={"limit": 1}), who["alice"], b.later(1)).same is None
