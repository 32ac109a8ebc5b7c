"""What looks like a secret is refused, and nothing of it is kept: not in the job, its errors or its timeline."""

from __future__ import annotations

import json

import pytest
from django.core import serializers
from django.test import Client

from scheduling.models import Event, Job
from scheduling.services import jobs
from tests import builders as b
from workers.secret_words import MASK

pytestmark = pytest.mark.django_db
SECRET = "hunter2hunter2"
TOKEN = "hf_" + "abcdefgh" * 4


@pytest.fixture
def alice():
    who = b.people()["alice"]
    b.node("n1")
    return who


def refused(actor, body, **raw) -> jobs.Refused:
    result = jobs.submit(body, actor, b.NOON, **raw)
    assert isinstance(result, jobs.Refused)
    return result


@pytest.mark.parametrize(
    ("changed", "hidden"),
    [
        ({"params": {"argv": ["a"], "env": {"MY_API_KEY": SECRET}}}, SECRET),
        ({"params": {"argv": ["a"], "env": {"FOO": TOKEN}}}, TOKEN),
        ({"params": {"argv": ["a"], "env": {"MY_API_KEY": [SECRET]}}}, SECRET),
        ({"params": {"argv": ["a", f"--password={SECRET}"]}}, SECRET),
        ({"params": {"argv": ["a", "--password", SECRET]}}, SECRET),
        ({"params": {"shell": f"a --password {SECRET}"}}, SECRET),
        ({"params": {"shell": f"cd x && a --password {SECRET}"}}, SECRET),
        ({"params": {"shell": f"API_KEY={SECRET} python a.py"}}, SECRET),
        ({"params": {"argv": ["a"], "preempt_signal": TOKEN}}, TOKEN[:12]),
        ({"params": {"argv": ["a"], TOKEN: 1}}, TOKEN[:12]),
        ({"kind": "comand", "params": {"env": {"MY_API_KEY": SECRET}}}, SECRET),
        ({"kind": "merge", "params": {"hf_token": SECRET}}, SECRET),
        ({"gpu_count": TOKEN}, TOKEN[:12]),
        ({"name": f"run {TOKEN}", "gpu_count": 0}, TOKEN[:12]),
    ],
)
def test_nothing_of_a_refused_secret_is_written_down(alice, changed, hidden):
    body = {**b.command_body(), **changed}
    result = refused(alice, body, raw=json.dumps(body))
    kept = serializers.serialize("json", [*Job.objects.all(), *Event.objects.all()])
    assert (result.job_id is not None, MASK in kept, hidden in kept) == (True, True, False)


def test_the_rest_of_the_refused_job_is_kept_as_it_was(alice):
    params = {"argv": ["a", "--password", SECRET, "--lr", "0.1"], "env": {"MY_API_KEY": SECRET, "LR": "1"}}
    job = Job.objects.get(pk=refused(alice, b.command_body(params=params)).job_id)
    assert job.params == {"argv": ["a", "--password", MASK, "--lr", "0.1"], "env": {"MY_API_KEY": MASK, "LR": "1"}}


def test_neither_its_page_nor_rest_nor_the_form_of_its_clone_shows_it(alice):
    job = refused(alice, b.command_body(params={"argv": ["a", f"--password={SECRET}"]})).job_id
    client = Client()
    assert client.login(username="alice", password=b.PASSWORD)
    pages = [f"/jobs/{job}/", f"/api/v1/jobs/{job}/", f"/jobs/new/command/?from={job}"]
    told = [client.get(page) for page in pages]
    assert [(each.status_code, SECRET in each.content.decode()) for each in told] == [(200, False)] * 3


def test_what_stands_in_its_place_is_refused_too(alice):
    errors = refused(alice, b.command_body(params={"argv": ["a"], "env": {"FOO": MASK}})).errors
    assert [(e["field"], e["code"]) for e in errors] == [("params.env.FOO", "secret")]


def test_all_secrets_of_a_command_line_are_told_at_once(alice):
    argv = ["a", "--password", SECRET, TOKEN, f"--api-key={SECRET}", "b"]
    errors = refused(alice, b.command_body(params={"argv": argv})).errors
    assert [e["field"] for e in errors] == ["params.argv.2", "params.argv.3", "params.argv.4"]
