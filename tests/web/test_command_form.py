"""The form of a program makes the job that REST would make, and refuses what REST refuses, beside the field."""

from __future__ import annotations

import html as entities
import re

import pytest

from scheduling.models import Job, Node
from scheduling.services import jobs
from scheduling.web import command_form, command_words
from tests import builders as b
from tests.web.pages import beside, browser, form, text

pytestmark = pytest.mark.django_db
FORM = "/jobs/new/command/"


def typed(**changed):
    """What the form posts when a plain program was typed."""
    texts = dict.fromkeys(command_form.TEXTS, "")
    return {**texts, "key": "1" * 36, "name": "train", "project": "alpha", "queue": "merge", "priority": "Normal",
            "gpu_count": "1", "max_duration": "1h", "program": "python train.py --lr 0.1", "reads": "line",
            **changed}  # fmt: skip


def params(**changed) -> dict:
    """The parameters of the job that is made of it."""
    response = browser().post(FORM, typed(**changed))
    assert response.status_code == 302, text(response)
    return Job.objects.get().params


def refused(field: str, **changed) -> str:
    """What is said beside the field of the refused form."""
    response = browser().post(FORM, typed(**changed))
    assert response.status_code == 422
    return entities.unescape(re.sub(r"<[^>]+>", "", beside(text(response), field)))


@pytest.mark.parametrize(("sizes", "told"), [
    ((4,), "1 to 8; the pool has 8 GPUs.<"),
    ((4, 2, 2), "1 to 10; the pool has 12 GPUs. Each of its nodes gives as many, but for one that may give fewer; up "
                "to 12 with Spread over nodes, where each gives what it has.<"),
])  # fmt: skip
def test_the_form_says_how_many_gpus_may_be_asked_for_and_why_not_all(lab, sizes, told):
    Node.objects.exclude(name="n1").delete()
    for place, gpus in enumerate(sizes, 2):
        b.node(f"n{place}", gpus=gpus)
    assert told in text(browser().get(FORM))


def test_a_rightly_filled_form_makes_the_job_that_rest_would_make(lab):
    response = browser().post(FORM, typed(
        files="code", inputs="base = a\n\nother=b", env="LR=0.1\nMODE= x=y", torchrun="on", nproc="2", cwd="scratch",
        program="train.py --name 'two words'", preempt_signal="SIGUSR1", checkpoint_exit_code="9", done_file="end",
        exit_zero_after_signal="success", limit_notice_s="30", node_count="2", gpu_count="4", retries="1",
        gpu_memory_min="40GB",
    ))  # fmt: skip
    job = Job.objects.get()
    assert response["Location"] == f"/jobs/{job.pk}/"
    assert jobs.body_again(str(job.pk), lab.who["alice"]) == {
        "kind": "command", "name": "train", "project": "alpha", "queue": "merge", "priority": "Normal",
        "gpu_count": "4", "node_count": "2", "gpu_memory_min": "40GB", "max_duration": "1h", "retries": "1",
        "nvlink_required": False,
        "params": {"argv": ["train.py", "--name", "two words"], "files": "code", "inputs": {"base": "a", "other": "b"},
                   "env": {"LR": "0.1", "MODE": " x=y"}, "torchrun": True, "nproc": 2, "cwd": "scratch",
                   "preempt_signal": "SIGUSR1", "checkpoint_exit_code": 9, "done_file": "end",
                   "exit_zero_after_signal": "success", "limit_notice_s": 30},
    }  # fmt: skip
    assert (job.state, job.node_count, job.gpus_per_node) == ("QUEUED", 2, 2)


@pytest.mark.parametrize(
    ("program", "reads", "words"),
    [
        ("python train.py --lr 0.1", "line", ["python", "train.py", "--lr", "0.1"]),
        ("python 'a b.py' \"x y\"", "line", ["python", "a b.py", "x y"]),
        ("python train.py \\\r\n  --lr 0.1", "line", ["python", "train.py", "--lr", "0.1"]),
        ("python -c 'import os\nprint(1)'", "line", ["python", "-c", "import os\nprint(1)"]),
        ("python x.py '&&' \"a | b\"", "line", ["python", "x.py", "&&", "a | b"]),
        ("python\r\ntrain it.py\r\n\r\n--say=it's $HOME && more", "lines",
         ["python", "train it.py", "--say=it's $HOME && more"]),
    ],
)  # fmt: skip
def test_a_program_is_read_as_its_writer_chose(lab, program, reads, words):
    assert params(program=program, reads=reads) == {"argv": words}


def test_a_line_for_sh_is_handed_on_as_it_is(lab):
    assert params(program=" python train.py $EMEP_INPUT_DIR/* ", reads="sh") == {
        "shell": "python train.py $EMEP_INPUT_DIR/*"
    }


@pytest.mark.parametrize(
    ("field", "changed", "words"),
    [
        ("program", {"program": " "}, "say which program runs: the program and its arguments, like python train.py"),
        ("program", {"program": "python 'train.py"}, "is not closed: close it, or choose one word in each line"),
        ("program", {"program": "cd x && python y.py"}, "no shell reads this line, so && would be an argument"),
        ("program", {"program": "python x.py > log"}, "so > would be an argument of the program"),
        ("program", {"program": "cd x && python y.py", "reads": "sh"}, "Program takes one command, and '&&' joins"),
        ("program", {"program": "a\nb", "reads": "sh"}, "Program takes one line"),
        ("program", {"program": "\n".join(["x"] * 513), "reads": "lines"}, "Program has 513 words, at most 512"),
        ("program", {"program": "x --api-key hunter2hunter2"}, "word 2 of the program looks like a secret"),
        ("program", {"program": "python -u train.py", "torchrun": "on"}, "torchrun starts a script or -m MODULE"),
        ("torchrun", {"reads": "sh", "torchrun": "on"}, "not a line of sh: choose another reading"),
        ("nproc", {"nproc": "2"}, "set torchrun, or leave it out"),
        ("nproc", {"nproc": "two", "torchrun": "on", "program": "t.py"}, "Processes per node must be a whole number"),
        ("nproc", {"nproc": "65", "torchrun": "on", "program": "t.py"}, "a whole number from 1 to 64"),
        ("env", {"env": "LR 0.1"}, "each line is a name, = and what it is, like LR=0.1; 'LR 0.1' is not"),
        ("env", {"env": "=x"}, "'=x' is not"),
        ("env", {"env": "A=1\nA=2"}, "A is there twice; give it once"),
        ("env", {"env": "1A=1"}, "can't name a variable"),
        ("env", {"env": "PATH=/x"}, "PATH can't be set"),
        ("env", {"env": "WANDB_API_KEY=abcdef0123456789"}, "looks like a secret"),
        ("inputs", {"inputs": "base"}, "like base=digits-0-4; 'base' is not"),
        ("inputs", {"inputs": "base=nothing-there"}, "there is no artifact 'nothing-there' in your projects"),
        ("inputs", {"inputs": "a/b=a"}, "can't name an input"),
        ("files", {"files": "nothing-there"}, "there is no artifact 'nothing-there' in your projects"),
        ("cwd", {"cwd": "../x"}, "Working directory is a directory on the node"),
        ("preempt_signal", {"preempt_signal": "SIGKILL"}, "Signal to save must be one of SIGTERM, SIGUSR1, SIGUSR2"),
        ("checkpoint_exit_code", {"checkpoint_exit_code": "1"}, "Exit code after saving must be a whole number from 3"),
        ("checkpoint_exit_code", {"checkpoint_exit_code": "x"}, "must be a whole number from 3 to 125"),
        ("done_file", {"done_file": "/x"}, "Done file is a file in EMEP_OUTPUT_DIR"),
        ("exit_zero_after_signal", {"exit_zero_after_signal": "fine"}, "must be one of preempted, success"),
        ("limit_notice_s", {"limit_notice_s": "soon"}, "Notice of its time limit is how many seconds"),
        ("gpu_count", {"gpu_count": "0"}, "GPUs must be a whole number from 1 to 8, not '0'"),
        ("node_count", {"node_count": "3", "gpu_count": "3"}, "ask for"),
        ("gpu_count", {"node_count": "2", "gpu_count": "5"},
         "5 GPUs can't be shared out over 2 nodes with as many on each: ask for 4 GPUs, or for another number"),
        ("max_duration", {"max_duration": "5 parsecs"}, "Time limit must be written like 4h"),
        ("gpu_memory_min", {"gpu_memory_min": "900GB"}, "no GPU has 900 GB"),
        ("name", {"name": "../x"}, "may not hold a slash"),
        ("project", {"project": "beta"}, "there is no project 'beta' that you belong to"),
        ("priority", {"priority": "Critical"}, "you may not ask for priority Critical"),
        ("retries", {"retries": "99"}, "Retries must be a whole number from 0 to 10"),
        ("purpose", {"purpose": "fun"}, "there is no purpose 'fun'"),
    ],
)  # fmt: skip
def test_what_can_not_be_is_refused_beside_its_field(lab, field, changed, words):
    said = refused(field, **changed)
    assert words.casefold() in said.casefold()


def test_what_can_not_be_read_and_what_is_refused_are_told_at_once_and_nothing_is_stored(lab):
    response = browser().post(FORM, typed(program="'x", env="A", gpu_count="0", node_count="x"))
    html = text(response)
    assert [bool(beside(html, name)) for name in ("program", "env", "gpu_count", "node_count")] == [True] * 4
    assert "Nothing was submitted: 4 things to mend" in html
    assert not Job.objects.exists()


def test_what_was_typed_is_still_there_after_an_error(lab):
    html = text(browser().post(FORM, typed(
        program="a <b>\n'c", reads="lines", env="A=<1>", torchrun="on", gpu_count="0", done_file="d", files="gone")
    ))  # fmt: skip
    for kept in ("a &lt;b&gt;\n&#x27;c</textarea>", "A=&lt;1&gt;</textarea>", 'value="lines" checked', 'value="d"',
                 '<option selected>gone', 'name="torchrun" checked'):  # fmt: skip
        assert kept in html


def test_posted_twice_it_makes_one_job(lab):
    client = browser()
    assert len({client.post(FORM, typed())["Location"] for _ in range(2)}) == 1
    assert Job.objects.count() == 1


def test_it_foretells_what_would_happen_and_what_would_be_refused(lab):
    client, asks = browser(), {"HX-Request": "true"}
    assert "It would start now" in text(client.post(f"{FORM}plan/", typed(), headers=asks))
    html = text(client.post(f"{FORM}plan/", typed(program="", gpu_count="0"), headers=asks))
    assert "It would be refused" in html
    assert html.count("<li>") == 2
    assert not Job.objects.exists()


FULL = {"kind": "command", "project": "alpha", "gpu_count": 2, "duration": "90m", "group": "g", "retries": None,
        "affinity": {"preferred": [{"key": "zone", "op": "In", "values": ["no, line"]}]},
        "params": {"argv": ["python", "a b.py", "&&", "x\ny", ""], "env": {"A": "1"}, "inputs": {"base": "a"},
                   "files": "code", "torchrun": True, "nproc": 2}}  # fmt: skip


@pytest.mark.parametrize(
    "params",
    [FULL["params"], {"shell": "python $X"}, {"argv": ["x"], "env": {"A": "1\n2"}}],
    ids=["all", "sh", "lines"],
)
def test_a_copied_job_asks_for_the_same_though_the_form_has_no_field_for_all_of_it(lab, params):
    body = {**FULL, "params": params}
    values = command_form.again(body)
    again = command_form.body_of(values)
    asked = {"kind": "command", "project": "alpha", "gpu_count": "2", "max_duration": "90m", "group": "g",
             "affinity": FULL["affinity"], "nvlink_required": False, "params": params}  # fmt: skip
    assert (again, command_form.faults(values)) == (asked, ())


def test_a_clone_opens_in_the_form_of_its_kind(lab):
    job = b.submitted(lab.who["alice"], FULL)
    response = browser().get(f"/jobs/new/?from={job}&gpu_count=1")
    assert response["Location"] == f"{FORM}?from={job}&gpu_count=1"
    html = text(browser().get(response["Location"]))
    assert 'name="gpu_count" value="1"' in html


def test_what_the_form_has_no_field_for_is_refused_at_the_top(lab):
    html = text(browser().post(FORM, typed(rest='{"grop": "a", "plan_token": "x"}')))
    assert html.count('<p class="note error" role="alert">') == 2


@pytest.mark.parametrize("rest", ["nonsense", "[1]", '{"params": 7}', "{" * 50_001])
def test_a_rest_that_is_none_of_ours_is_no_harm(lab, rest):
    assert browser().post(FORM, typed(rest=rest)).status_code == 302


def test_a_refused_command_is_mended_in_its_form(lab):
    job = jobs.submit(b.command_body(gpu_count=99), lab.who["alice"], b.NOON).job_id
    assert f'href="/jobs/new/?from={job}">Mend and submit again' in text(browser().get(f"/jobs/{job}/"))
    assert "python train.py</textarea>" in text(browser().get(f"/jobs/new/?from={job}", follow=True))


@pytest.mark.parametrize("params", [{"argv": 7, "env": [1], "inputs": "x"}, "nonsense", {"argv": [1, None]}, None])
def test_a_refused_body_of_any_shape_opens_in_the_form(lab, params):
    job = jobs.submit({**b.command_body(gpu_count=99), "params": params}, lab.who["alice"], b.NOON).job_id
    assert browser().get(f"{FORM}?from={job}").status_code == 200


def test_only_artifacts_of_ones_own_projects_are_offered(lab):
    assert "code (output of alpha" in text(browser().get(FORM))
    assert "of alpha" not in text(browser("bob").get(FORM))


@pytest.mark.parametrize("words", [["a b", "c'd", "\\", "\n", "", "&&", '"', "x\\\ny"], ["$HOME", "*"]])
def test_a_program_is_typed_so_that_it_is_read_back(words):
    line = command_words.as_typed(words)
    assert (command_words.words(line, "line"), list(command_words.program_faults(line, "line"))) == (words, [])


def test_a_merge_keeps_what_its_form_has_no_field_for_too(lab):
    job = b.submitted(lab.who["alice"], b.merge_body(lab.models, retries=1, params={"max_shard_size": 2_000_000}))
    html = text(browser().get(f"/jobs/new/?from={job}"))
    rest = entities.unescape(re.search(r'name="rest" value="([^"]*)"', html).group(1))
    assert ("<dd>2000000</dd>" in html, rest) == (True, '{"params": {"max_shard_size": 2000000}}')
    client = browser()
    for key, drop in (("1" * 36, {}), ("2" * 36, {"drop_rest": "on"})):
        client.post("/jobs/new/", {**form(lab.models), "key": key, "rest": rest, **drop})
    kept = Job.objects.order_by("submitted_at").values_list("params", flat=True)
    assert [params.get("max_shard_size") for params in kept] == [2_000_000, 2_000_000, None]


def test_the_working_files_offered_are_not_other_jobs_checkpoints(lab):
    b.artifact(lab.who["alice"], "kept-state", {"experiment.json": b"{}"}, kind="checkpoint")
    page = text(browser().get(FORM))
    assert (">code (" in page, "kept-state" in page) == (True, False)


def test_gpus_that_nothing_has_are_named_though_the_nodes_can_not_be_read():
    b.lab()
    response = browser().post(FORM, typed(gpu_count="99", node_count="-2", max_duration="30x"))
    html = text(response)
    assert "3 things to mend" in html
    assert "at most 4" in beside(html, "gpu_count")


def test_of_lines_all_that_is_wrong_is_told_at_once_whether_they_could_be_read_or_not(lab):
    said = refused("env", env="LR 0.1\nPATH=/x\n1A=2\nLR=0.1\nLR=0.2")
    wanted = ("'LR 0.1' is not", "LR is there twice", "PATH can't be set", "'1A' can't name a variable")
    assert [words for words in wanted if words not in said] == []
    said = refused("inputs", env="LR 0.1", inputs="base\na/b=a\nc=gone")
    assert [words for words in ("'base' is not", "'a/b' can't name an input", "'gone'") if words not in said] == []
