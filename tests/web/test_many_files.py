"""An artifact of thousands of files hides nothing else of its job's page, and its own page shows them in parts."""

from __future__ import annotations

import pytest

from scheduling.models import Artifact, JobOutput
from scheduling.web.file_lists import AT_ONCE, FIRST, came_out, part_of
from tests import builders as b
from tests.web.pages import browser, text


def rows(count: int) -> list[dict]:
    return [{"path": f"part-{i:05}", "size": 1, "sha256": "0" * 64} for i in range(count)]


def artifact(count: int) -> dict:
    return {"id": "a", "name": "net", "kind": "output", "size": count, "files": rows(count)}


def test_the_first_files_are_shown_and_how_many_there_are():
    (told,) = came_out([artifact(5001)])
    assert (len(told["files"]), told["told"], told["cut"]) == (FIRST, "5,001 files", True)


def test_as_many_as_there_is_room_for_are_all_shown():
    (told,) = came_out([artifact(FIRST)])
    assert (len(told["files"]), told["cut"]) == (FIRST, False)


def test_many_artifacts_share_the_room():
    told = came_out([artifact(FIRST - 1), artifact(3), artifact(1)])
    assert [(len(each["files"]), each["cut"]) for each in told] == [(FIRST - 1, False), (1, True), (0, True)]


@pytest.mark.parametrize(
    ("wanted", "told", "before", "after"),
    [
        ("", "1 to 200 of 5,001 files", None, 2),
        ("2", "201 to 400 of 5,001 files", 1, 3),
        ("26", "5,001 to 5,001 of 5,001 files", 25, None),
        ("999", "5,001 to 5,001 of 5,001 files", 25, None),
        ("x", "1 to 200 of 5,001 files", None, 2),
    ],
)
def test_a_page_of_them(wanted, told, before, after):
    part = part_of(rows(5001), wanted)
    assert (part["told"], part["before"], part["after"]) == (told, before, after)


def test_few_files_have_no_pages():
    assert not part_of(rows(AT_ONCE), "")["cut"]


@pytest.fixture
def many(db) -> tuple[str, str]:
    """A job that made an artifact of 5,001 files, and the artifact."""
    _, run = b.busy_lab()
    made = Artifact.objects.first()
    Artifact.objects.filter(pk=made.pk).update(files=rows(5001))
    JobOutput.objects.create(job_id=run.job, artifact=made, name="net")
    return run.job, str(made.pk)


def test_the_page_of_its_job_leads_to_all_of_them(many):
    html = text(browser().get(f"/jobs/{many[0]}/"))
    assert f'<a href="/artifacts/{many[1]}/#files">5,001 files, show all</a>' in html
    assert html.count(" download>") == FIRST + 1  # and the log


def test_the_page_of_the_artifact_leads_on(many):
    html = text(browser().get(f"/artifacts/{many[1]}/?page=2"))
    assert 'rel="prev" href="?page=1#files"' in html
    assert 'rel="next" href="?page=3#files"' in html
    assert html.count(" download>") == AT_ONCE
