"""The forms take the jobs that come first and what they will give, as REST does, and tell refusals beside them."""

from __future__ import annotations

import html as entities
import re

import pytest

from scheduling.models import Job
from scheduling.web import after_lines, command_form, evaluate_form
from tests import builders as b
from tests.web.pages import beside, browser, form, text

pytestmark = pytest.mark.django_db
PROGRAM, EVALUATION, MERGE = "/jobs/new/command/", "/jobs/new/evaluate/", "/jobs/new/"
COMMON = {"key": "1" * 36, "name": "second", "project": "alpha", "queue": "merge", "priority": "Normal",
          "gpu_count": "1", "max_duration": "1h"}  # fmt: skip


@pytest.fixture
def first(lab):
    """The id of a merge, called first, that waits for GPUs."""
    b.dataset(lab.who["alice"], "tests")
    return b.submitted(lab.who["alice"], b.merge_body(lab.models, name="first"))


def program(**changed):
    return {**dict.fromkeys(command_form.TEXTS, ""), **COMMON, "program": "python a.py", "reads": "line", **changed}


def evaluation(**changed):
    return {**dict.fromkeys(evaluate_form.TEXTS, ""), **COMMON, "dataset": "tests", **changed}


def made(address, typed, who="alice"):
    response = browser(who).post(address, typed)
    assert response.status_code == 302, text(response)
    return Job.objects.get(name="second")


def refused(address, typed, field, who="alice"):
    response = browser(who).post(address, typed)
    assert response.status_code == 422
    return entities.unescape(re.sub(r"<[^>]+>", "", beside(text(response), field)))


def waits_for(job):
    return [str(row.before_id) for row in job.predecessors.all()]


@pytest.mark.parametrize("line", ["first", "{id}", "first ({id})", " first "])
def test_a_job_is_named_by_its_name_its_id_or_as_it_is_suggested(first, line):
    job = made(PROGRAM, program(after=[line.format(id=first), ""]))
    assert waits_for(job) == [first]
    assert (job.awaits, job.after_any) == (1, False)


def test_it_may_go_on_however_they_end(first):
    assert made(PROGRAM, program(after=first, after_any="on")).after_any


def test_several_are_named_a_field_each_and_one_twice_is_one(lab, first):
    other = b.submitted(lab.who["alice"], b.command_body(name="other"))
    assert waits_for(made(PROGRAM, program(after=["other", "first", first, ""]))) == [other, first]


def test_the_form_suggests_what_has_yet_to_end_and_is_ones_own(lab, first):
    b.submitted(lab.who["bob"], b.command_body(project="beta", name="of-beta"))
    html = text(browser().get(PROGRAM))
    assert f'<option value="first ({first})">queued, of alpha</option>' in html
    assert f'<option value="@{first}" >output of first (queued)</option>' in html
    assert "of-beta" not in html


def test_a_name_that_no_job_has_is_refused_beside_the_field_and_kept(first):
    html = text(browser().post(PROGRAM, program(after=["frist"])))
    said = entities.unescape(re.sub(r"<[^>]+>", "", beside(html, "after")))
    assert said == ("no job that could be waited for is called 'frist' in your projects; choose one, or remove it")
    assert 'name="after" value="frist"' in html
    assert "must be the id" not in html


def test_of_several_jobs_of_a_name_the_ids_are_told(lab, first):
    other = b.submitted(lab.who["alice"], b.command_body(name="first"))
    said = refused(PROGRAM, program(after="first"), "after")
    assert said.startswith("several jobs are called 'first': give the id of one of them (")
    assert first in said
    assert other in said


@pytest.mark.parametrize("field", ["after", "files"])
def test_a_job_of_another_project_is_found_neither_by_name_nor_by_id(lab, first, field):
    theirs = b.submitted(lab.who["bob"], b.command_body(project="beta", name="secret"))
    sign = "@" if field == "files" else ""
    assert "called 'secret' in your projects" in refused(PROGRAM, program(**{field: f"{sign}secret"}), field)
    assert f"there is no job '{theirs}' in your projects" in refused(PROGRAM, program(after=theirs), "after")


def test_what_has_failed_is_refused_in_the_words_of_the_form(lab, first):
    b.jobs.cancel(first, lab.who["alice"], b.NOON)
    said = refused(PROGRAM, program(after=first), "after")
    assert f"job {first} has ended CANCELLED" in said
    assert "or tick However they end if any end will do" in said


def test_a_switch_that_is_about_no_job_is_refused_beside_it(first):
    assert "names none" in refused(PROGRAM, program(after_any="on"), "after_any")


@pytest.mark.parametrize("chosen", [{"model": "@{id}"}, {"model": "@", "model_typed": "@first"},
                                    {"model": "@", "model_typed": " @{id}/first "}])  # fmt: skip
def test_an_output_is_chosen_or_typed_and_its_job_waited_for_by_itself(first, chosen):
    job = made(EVALUATION, evaluation(**{name: value.format(id=first) for name, value in chosen.items()}))
    assert waits_for(job) == [first]
    assert job.params["model"] in (f"@{first}", f"@{first}/first")


def test_an_output_is_merged_with_a_model(lab, first):
    typed = form(lab.models, name="second", gpu_count="1", nvlink_required="", model=[lab.models[0], "@", "", ""],
                 model_typed=["", "@first", "", ""])  # fmt: skip
    job = made(MERGE, typed)
    assert job.params["models"] == [lab.models[0], f"@{first}"]
    assert waits_for(job) == [first]


def test_an_output_is_a_line_of_a_programs_inputs(first):
    job = made(PROGRAM, program(inputs="net=@first\n"))
    assert job.params["inputs"] == {"net": f"@{first}"}
    assert waits_for(job) == [first]


@pytest.mark.parametrize(
    ("typed", "said"),
    [("", after_lines.EMPTY), ("@none", "is called 'none' in your projects"),
     ("@first/other", "will make one artifact, called 'first', and none called 'other'")],
)  # fmt: skip
def test_an_output_that_there_will_not_be_is_refused_beside_its_field(first, typed, said):
    assert said in refused(EVALUATION, evaluation(model="@", model_typed=typed), "model")
    lines = f"net={typed or '@'}"
    assert said in refused(PROGRAM, program(inputs=lines), "inputs")


def test_an_output_among_the_merged_models_that_there_will_not_be_is_refused_beside_them(lab, first):
    typed = form(lab.models, model=[lab.models[0], "@", "", ""], model_typed=["", "@none", "", ""])
    assert refused(MERGE, typed, "models").count("is called 'none'") == 1


def test_a_copy_waits_for_the_same_jobs_and_reads_the_same_outputs(lab, first):
    body = b.evaluate_body(f"@{first}/first", "tests", name="second", after=[first], after_any=False)
    second = b.submitted(lab.who["alice"], body)
    html = text(browser().get(f"{EVALUATION}?from={second}"))
    assert f'name="after" value="first ({first})"' in html
    assert f'<option value="@{first}/first" selected>first of first (queued)</option>' in html
    assert "As in the job it is copied from" not in html
    assert "<details open><summary>Wait for other jobs</summary>" in html


def test_a_copy_of_a_merge_has_the_output_in_its_row(lab, first):
    body = b.merge_body([lab.models[0], f"@{first}"], name="second", after=[first])
    html = text(browser().get(f"{MERGE}?from={b.submitted(lab.who['alice'], body)}"))
    assert html.count(f'<option value="@{first}" selected>output of first (queued)</option>') == 1


def test_a_plan_tells_what_it_would_wait_for_and_what_then(first):
    html = text(browser().post("/jobs/new/evaluate/plan/", evaluation(model=f"@{first}")))
    assert "It would wait for other jobs, and then be placed like any other." in html
    assert "It would wait for one job to succeed first: first (queued)." in html


def test_a_name_is_escaped(lab, first):
    b.submitted(lab.who["alice"], b.command_body(name="<b>x"))
    html = text(browser().get(PROGRAM))
    assert "&lt;b&gt;x" in html
    assert "<b>x" not in html
