"""An evaluation is refused before it waits for all that headers, configuration and names of files can tell."""

from __future__ import annotations

import json

import pytest

from scheduling.models import Job
from scheduling.services import jobs, whatif
from scheduling.services.jobs import Refused
from scheduling.services.same_work import Work, is_same
from tests import builders as b
from workers.rows_params import MAX_CONFIG

pytestmark = pytest.mark.django_db
SIZES = (4, 3)
CONFIG = {"model_type": "mlp", "layer_sizes": list(SIZES)}
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
DECODER = {"model_type": "decoder", "num_layers": 1, "width": 4, "heads": 1, "context": 8, "characters": "ab"}


@pytest.fixture
def who():
    return b.people()


def faults(actor, body) -> list[tuple[str, str, str]]:
    """(field, code, message) of everything that is wrong."""
    result = jobs.submit(body, actor, b.NOON)
    assert isinstance(result, Refused), result
    return [(e["field"], e["code"], e["message"]) for e in result.errors]


def test_an_evaluation_waits_in_the_eval_queue_with_its_two_inputs(who):
    model, data = b.mlp(who["alice"], "net", sizes=SIZES), b.dataset(who["alice"], "tests")
    body = {name: value for name, value in b.evaluate_body("net", "tests").items() if name != "queue"}
    job = Job.objects.get(pk=b.submitted(who["alice"], body))
    assert (job.state, job.queue.name) == ("QUEUED", "eval")
    assert job.params == {"model": "net", "dataset": "tests", "batch_size": 32}
    assert [(i["as"], i["artifact"], i["name"]) for i in job.spec["inputs"]] == [
        ("model", model, "net"), ("dataset", data, "tests"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "data", "told"),
    [
        ("nett", "tests", [("params.model", "no_such_artifact",
                            "there is no artifact 'nett' in your projects (did you mean 'net'?)")]),
        ("net", "test", [("params.dataset", "no_such_artifact",
                          "there is no artifact 'test' in your projects (did you mean 'tests'?)")]),
        ("tests", "net", [("params.model", "not_a_model", "'tests' is a dataset, not a model"),
                          ("params.dataset", "not_a_dataset", "'net' is a model, not a dataset")]),
    ],
)  # fmt: skip
def test_model_and_data_set_are_artifacts_of_their_kinds(who, model, data, told):
    b.mlp(who["alice"], "net", sizes=SIZES)
    b.dataset(who["alice"], "tests")
    assert faults(who["alice"], b.evaluate_body(model, data)) == told


def test_an_artifact_of_a_project_one_may_not_know_of_is_none(who):
    b.mlp(who["bob"], "theirs", sizes=SIZES, project="beta")
    b.dataset(who["alice"], "tests")
    assert faults(who["alice"], b.evaluate_body("theirs", "tests")) == [
        ("params.model", "no_such_artifact", "there is no artifact 'theirs' in your projects")
    ]


@pytest.mark.parametrize(
    ("config", "params", "field", "code", "words"),
    [
        (b"{", {}, "params.architecture", "required", "'net' has no config.json that says what it is: give"),
        (b" " * (MAX_CONFIG + 1), {}, "params.architecture", "required", "'net' has no config.json"),
        (b"{}", {}, "params.model", "required", "config.json of 'net': model_type is missing"),
        (b'{"model_type": "llama"}', {}, "params.model", "unknown_architecture", "one of mlp, decoder, not 'llama'"),
        (json.dumps({**LLAMA, "auto_map": {"AutoModel": "x.X"}}).encode(), {}, "params.model", "custom_code",
         "config.json of 'net': it names code of its own (auto_map), which is never run"),
        (json.dumps(LLAMA).encode(), {}, "params.model", "no_tokenizer", "'net' has no tokenizer beside its weights"),
        (json.dumps(LLAMA).encode(), {"metrics": ["accuracy"]}, "params.metrics", "mismatch",
         "accuracy can't be told of the architecture LlamaForCausalLM: language models have perplexity"),
        (json.dumps({**CONFIG, "layer_sizes": [4, 4]}).encode(), {}, "params.model", "shape_mismatch",
         "tensor '0.weight' is 3 x 4 in 'net' and 4 x 4 by its architecture"),
        (json.dumps(CONFIG).encode(), {"metrics": ["perplexity"]}, "params.metrics", "mismatch",
         "perplexity can't be told of the architecture mlp"),
        (b"{}", {"architecture": {**CONFIG, "layer_sizes": [4, 3, 3]}}, "params.model", "missing_tensor",
         "'net' lacks 2.weight, 2.bias, which the architecture mlp has"),
        (b"{}", {"architecture": {**CONFIG, "layer_sizes": [4]}}, "params.architecture.layer_sizes", "out_of_range",
         "layer_sizes must list 2 to 1000 whole numbers"),
        (json.dumps(CONFIG).encode(), {"file": "x.csv"}, "params.file", "no_such_file", "'tests' has no file 'x.csv'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_field(who, config, params, field, code, words):
    b.mlp(who["alice"], "net", sizes=SIZES, config=config)
    b.dataset(who["alice"], "tests")
    found = faults(who["alice"], b.evaluate_body("net", "tests", params=params))
    assert (found[0][:2], words in found[0][2]) == ((field, code), True), found


def test_all_of_it_is_told_at_once_and_with_the_other_fields(who):
    b.mlp(who["alice"], "net", sizes=SIZES, config=json.dumps(DECODER).encode())
    b.artifact(who["alice"], "tests", {"x.safetensors": b.tensors(), "README": b""}, kind="dataset")
    params = {"metrics": ["accuracy"], "batch_size": 0, "colour": "red"}
    found = faults(who["alice"], b.evaluate_body("net", "tests", params=params, max_duration="long"))
    assert {(field, code) for field, code, _ in found} == {
        ("max_duration", "bad_duration"), ("params.colour", "unknown_field"),
        ("params.batch_size", "out_of_range"), ("params.metrics", "mismatch"), ("params.model", "missing_tensor"),
        ("params.model", "unknown_tensor"), ("params.dataset", "unsupported_format"),
    }  # fmt: skip


def test_a_model_of_hugging_face_waits_and_reads_texts(who):
    files = {"model.safetensors": b.tensors(), "config.json": json.dumps(LLAMA).encode(), "tokenizer.json": b"{}"}
    b.artifact(who["alice"], "llama", files)
    b.dataset(who["alice"], "tests")
    assert b.submitted(who["alice"], b.evaluate_body("llama", "tests"))
    b.artifact(who["alice"], "numbers", {"x.safetensors": b.tensors()}, kind="dataset")
    assert [each[:2] for each in faults(who["alice"], b.evaluate_body("llama", "numbers"))] == [
        ("params.dataset", "unsupported_format")
    ]


def test_a_model_whose_tensors_are_not_known_yet_is_left_to_the_job(who):
    files = {"net.pth": b"\x80\x02", "config.json": json.dumps(CONFIG).encode()}
    b.artifact(who["alice"], "net", files)
    b.dataset(who["alice"], "tests")
    assert b.submitted(who["alice"], b.evaluate_body("net", "tests"))


def test_the_same_model_by_another_name_is_the_same_work():
    inputs = [{"artifact": "1"}, {"artifact": "2"}]
    one = Work("evaluate", {"model": "net", "dataset": "tests", "batch_size": 32}, inputs)
    assert is_same(one, Work("evaluate", {"model": "1", "dataset": "tests", "batch_size": 32}, inputs))
    assert not is_same(one, Work("evaluate", {"model": "net", "dataset": "tests", "batch_size": 8}, inputs))


def test_the_same_evaluation_is_offered_the_one_that_is_to_be_made(who):
    model, data = b.mlp(who["alice"], "net", sizes=SIZES), b.dataset(who["alice"], "tests")
    b.node("n1")
    job = b.submitted(who["alice"], b.evaluate_body("net", "tests"))
    same = whatif.plan(b.evaluate_body(model, data, name="again"), who["alice"], b.later(1)).same
    assert same["job"] == job
    assert whatif.plan(b.evaluate_body(model, data, params={"limit": 1}), who["alice"], b.later(1)).same is None
