"""What was asked for, on the page of a job: everything that was, a row each, and nothing that was not."""

from __future__ import annotations

import html as entities
import re

import pytest

from tests import builders as b
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db

EVERYTHING = {
    "kind": "command", "name": "all", "project": "alpha", "queue": "eval", "priority": "High",
    "purpose": "regression_gate", "gpu_count": 4, "node_count": 2, "gpu_memory_min": "40GB", "max_duration": "90m",
    "required_level": "rack", "max_wait_for_level": "2h", "group": "ensemble-7", "retries": 2,
    "with": {"group": "base", "level": "rack"}, "anti_affinity": {"group": "noisy", "level": "node"},
    "affinity": {"required": [{"key": "rack_id", "op": "In", "values": ["r1", "r2"]}],
                 "preferred": [{"key": "gpu_model", "op": "NotIn", "values": ["Old"], "weight": 5},
                               {"key": "disk", "op": "Exists"}]},
    "not_before": "2026-03-02T13:00:00Z", "start_by": "2026-03-03T13:00:00Z",
    "params": {"argv": ["python", "train.py", "--name", "two words"], "files": "code", "inputs": {"base": "a"},
               "env": {"LR": "0.1", "MODE": "x=y"}, "cwd": "scratch", "torchrun": False, "preempt_signal": "SIGUSR1",
               "checkpoint_exit_code": 9, "done_file": "end", "exit_zero_after_signal": "success",
               "limit_notice_s": 60},
}  # fmt: skip
ROWS = {
    "Program": "python train.py --name 'two words'",
    "Working files": "code",
    "Inputs": "base: a",
    "Environment": "LR=0.1\nMODE=x=y",
    "Working directory": "scratch",
    "Signal to save": "SIGUSR1",
    "Exit code after saving": "9",
    "Done file": "end",
    "Notice of its time limit": "1m before it",
    "Exit code 0 after the signal": "success",
    "GPUs": "4 on 2 nodes, 2 each",
    "Queue": "eval",
    "Priority": "High",
    "Purpose": "regression_gate",
    "Memory": "40 GB or more each",
    "Time limit": "1h 30m",
    "All in one": "rack",
    "How long to hold out for it": "2h",
    "Must run where": "rack_id is r1 or r2",
    "Should run where": "gpu_model is not Old (weight 5)|disk is there (weight 1)",
    "Run beside": "jobs of group base, by rack",
    "Keep away from": "jobs of group noisy, by node",
    "Group": "ensemble-7",
    "Earliest start": "2 Mar 2026, 13:00 UTC",
    "Latest start": "3 Mar 2026, 13:00 UTC",
    "Retries": "2",
}


def rows(job, heading="What was asked for") -> dict[str, str]:
    """The rows under the heading; those of one word with a bar between them."""
    page = text(browser().get(f"/jobs/{job}/"))
    part = page.split(f"<h2>{heading}</h2>")[1].split("</dl>")[0]
    found: dict[str, str] = {}
    for word, value in re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", part, re.S):
        told = entities.unescape(re.sub(r"<[^>]+>", "", value)).strip()
        found[word] = f"{found[word]}|{told}" if word in found else told
    return found


def test_everything_that_a_command_can_ask_for_has_its_row(lab):
    for name in ("n2", "n3"):  # with which there is a better level than one rack
        b.node(name, wide="of two nodes")
    assert rows(b.submitted(lab.who["alice"], EVERYTHING)) == ROWS


def test_what_was_not_asked_for_has_no_row_and_what_the_queue_decided_is_told_apart(lab):
    job = b.submitted(
        lab.who["alice"],
        {"kind": "command", "gpu_count": 1, "params": {"shell": "python train.py"}, "group": None},
    )
    assert rows(job) == {"Program": "python train.py", "GPUs": "1"}
    decided = rows(job, "What it is")
    assert [decided[word] for word in ("Queue", "Priority", "Time limit")] == [
        "merge, by default", "Normal, by default", "4h, by default",
    ]  # fmt: skip


def test_a_merge_tells_its_models_and_how_they_are_merged(lab):
    params = {"strategy": "linear", "models": lab.models, "weights": [2, 1], "normalize": False, "seed": 7,
              "out_dtype": "bfloat16"}  # fmt: skip
    job = b.submitted(lab.who["alice"], {"kind": "merge", "gpu_count": 2, "nvlink": True, "duration": 600,
                                         "params": params})  # fmt: skip
    assert rows(job) == {
        "Models": "a, b", "Merge": "linear, weights 2, 1, weights as they are, not divided by their sum",
        "Seed": "7", "Stored as": "bfloat16", "GPUs": "2 in one NVLink group", "Time limit": "10m",
    }  # fmt: skip


def test_a_merge_on_a_base_tells_the_base_apart_and_only_what_is_not_so_by_itself(lab):
    params = {"strategy": "della", "models": lab.models[:1], "base_model": lab.models[1], "density": [0.5],
              "epsilon": 0.1, "lambda": 0.7, "normalize": False}  # fmt: skip
    job = b.submitted(lab.who["alice"], {"kind": "merge", "gpu_count": 1, "params": params})
    assert rows(job) == {
        "Models": "a", "Base model": "b", "Merge": "della, weights as they are, not divided by their sum",
        "Lambda": "0.7", "Density": "0.5", "Epsilon": "0.1", "GPUs": "1",
    }  # fmt: skip


def test_a_plain_merge_has_no_rows_of_what_it_takes_by_itself(lab):
    job = b.submitted(lab.who["alice"], {"kind": "merge", "gpu_count": 1, "params": {"models": lab.models}})
    assert rows(job) == {"Models": "a, b", "Merge": "slerp, t = 0.5", "GPUs": "1"}


@pytest.mark.parametrize(
    ("asked", "word", "told"),
    [
        ({"gpu_count": 8, "allow_span": True}, "Spread over nodes", "yes"),
        ({"gpu_count": 1, "required_level": "rack"}, "All in one", "rack (it lies on one node)"),
        ({"gpu_count": 2, "required_level": "nvlink_group"}, "All in one", "NVLink group (it lies on one node)"),
        ({"gpu_count": 2, "required_level": "nvlink_group"}, "GPUs", "2 in one NVLink group"),
        ({"gpu_count": 7}, "GPUs", "7 on 2 nodes, 4 each and 3 on the last"),
        ({"gpu_count": 4, "nvlink_required": True, "nvlink_exclusive": True}, "Whole NVLink group", "yes"),
        ({"gpu_count": 1, "params": {"argv": ["train.py"], "torchrun": True}}, "Started by",
         "torchrun, one process a GPU"),
        ({"gpu_count": 1, "params": {"argv": ["train.py"], "torchrun": True, "nproc": 3}}, "Started by",
         "torchrun, 3 processes a node"),
    ],
)  # fmt: skip
def test_a_rarer_wish_has_its_row_too(lab, asked, word, told):
    body = {"kind": "command", "params": {"argv": ["x"]}, **asked}
    assert rows(b.submitted(lab.who["alice"], body))[word] == told


def test_a_batch_inference_tells_its_model_its_rows_and_what_is_not_so_by_itself(lab):
    files = {"net.pth": b"1", "config.json": b'{"model_type": "decoder", "num_layers": 1, "width": 4, "heads": 1, '
             b'"context": 8}'}  # fmt: skip
    model, data = b.artifact(lab.who["alice"], "writer", files), b.dataset(lab.who["alice"], "tests")
    body = {"kind": "infer", "gpu_count": 1, "params": {"model": model, "input": data}}
    plain = {"Model": "writer", "Data set": "tests", "GPUs": "1"}
    assert rows(b.submitted(lab.who["alice"], body)) == plain
    body["params"] |= {"max_new_tokens": 8, "temperature": 0.5, "seed": 3, "logprobs": True, "max_bad_rows": 2,
                       "batch_size": 8, "limit": 5}  # fmt: skip
    assert rows(b.submitted(lab.who["alice"], body)) == {
        **plain, "New tokens": "8", "Temperature": "0.5", "Seed": "3", "Log-probabilities": "yes",
        "Bad rows passed over": "2", "Samples at a time": "8", "Only the first samples": "5",
    }  # fmt: skip


def test_that_a_job_is_never_preempted_is_told(lab):
    body = {"kind": "command", "project": "alpha", "gpu_count": 1, "preemptible": False, "params": {"argv": ["x"]}}
    assert rows(b.submitted(lab.who["admin"], body))["Preemptible"] == "no"


def test_an_evaluation_tells_its_model_its_data_set_and_what_is_not_so_by_itself(lab):
    model, data = b.mlp(lab.who["alice"], "net", sizes=(4, 3)), b.dataset(lab.who["alice"], "tests")
    body = {"kind": "evaluate", "gpu_count": 1, "params": {"model": model, "dataset": data}}
    plain = {"Model": "net", "Data set": "tests", "Metrics": "all of its kind of model", "GPUs": "1"}
    assert rows(b.submitted(lab.who["alice"], body)) == plain
    architecture = {"model_type": "mlp", "layer_sizes": [4, 3], "activation": "relu"}
    body["params"] |= {"metrics": ["loss", "accuracy"], "batch_size": 8, "limit": 5, "file": "test.jsonl",
                       "architecture": architecture}  # fmt: skip
    assert rows(b.submitted(lab.who["alice"], body)) == {
        **plain, "Metrics": "accuracy, loss", "Samples at a time": "8", "Only the first samples": "5",
        "File of the data set": "test.jsonl",
        "Architecture": '{"model_type": "mlp", "layer_sizes": [4, 3], "activation": "relu"}',
    }  # fmt: skip
