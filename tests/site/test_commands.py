"""The commands of ``manage.py`` that operators use; "up" and "runscheduler" are also run for real in the journeys."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from scheduling.models import Job, SchedulerState, UnusedBlob
from scheduling.services import artifact_deletion as deletion
from scheduling.services import artifact_files, pool, watch
from scheduling.store import clock
from tests import builders as b

pytestmark = pytest.mark.django_db


def test_addnode_prints_a_token_once_and_a_new_one_only_when_asked():
    first, second = StringIO(), StringIO()
    call_command("addnode", "gpu-box", stdout=first)
    with pytest.raises(CommandError, match=r"gpu-box exists, .* run manage.py addnode gpu-box --new-token"):
        call_command("addnode", "gpu-box")
    assert pool.is_token_of("gpu-box", first.getvalue().strip())
    call_command("addnode", "gpu-box", "--new-token", stdout=second)
    assert first.getvalue().startswith("emepn_")
    assert not pool.is_token_of("gpu-box", first.getvalue().strip())
    assert pool.is_token_of("gpu-box", second.getvalue().strip())


def test_addnode_tells_the_next_command_beside_the_token_which_stands_alone_on_stdout(settings):
    settings.PUBLIC_URL = "http://pool.example"
    out, beside = StringIO(), StringIO()
    call_command("addnode", "gpu-box", stdout=out, stderr=beside)
    assert out.getvalue().count("\n") == 1
    command = "python -m workers agent --state DIR --server http://pool.example --node gpu-box --token-file FILE"
    assert command in beside.getvalue()
    assert out.getvalue().strip() not in beside.getvalue()


def test_addnode_refuses_a_bad_name():
    with pytest.raises(CommandError, match="lower-case letters, digits and dashes"):
        call_command("addnode", "GPU box!")


@pytest.mark.django_db(transaction=True)
def test_the_loop_ticks_at_once_on_a_submission_and_frees_its_lease():
    who = b.people()
    b.node("n1", now=watch.now())
    models = [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]
    stop = threading.Event()
    # a period of an hour: only the wake-up can start the job in time
    loop = threading.Thread(target=watch.run_scheduler, args=("test", stop), kwargs={"period_s": 3600.0})
    loop.start()
    try:
        job = b.submitted(who["alice"], b.merge_body(models), now=watch.now())
        deadline = threading.Event()
        for _ in range(500):
            if Job.objects.get(pk=job).state == "DISPATCHING":
                break
            deadline.wait(0.02)
        assert Job.objects.get(pk=job).state == "DISPATCHING"
    finally:
        stop.set()
        loop.join(10)
    assert SchedulerState.objects.get(pk=1).holder == ""


def test_collectartifacts_says_what_it_would_remove_and_then_removes_it():
    lab = b.lab()
    call_command("collectartifacts", stdout=StringIO())
    deletion.delete(lab.models[0], lab.who["alice"], clock.now())
    said = StringIO()
    call_command("collectartifacts", "--dry-run", stdout=said)
    assert "0 artifacts (0 bytes) of which the time is over would be deleted." in said.getvalue()
    assert "0 blobs (0 bytes) that nobody has needed for 24 h would be removed." in said.getvalue()
    call_command("collectartifacts", stdout=StringIO())
    UnusedBlob.objects.update(since=clock.now() - timedelta(hours=25))
    would, does = StringIO(), StringIO()
    call_command("collectartifacts", "--dry-run", "--json", stdout=would)
    call_command("collectartifacts", "--json", stdout=does)
    planned, done = json.loads(would.getvalue()), json.loads(does.getvalue())
    assert (planned["dry_run"], done["dry_run"], planned["removed"]) == (True, False, done["removed"])
    assert done["removed"]["count"] == 1


def test_collectartifacts_says_when_it_could_remove_nothing():
    b.lab()
    said = StringIO()
    with artifact_files.nothing_collected():
        call_command("collectartifacts", stdout=said)
    assert "Somebody is storing just now, so no bytes were removed: try again." in said.getvalue()


def test_collectartifacts_leaves_another_databases_directory_alone():
    b.lab()
    (artifact_files.settings.ARTIFACT_DIR / artifact_files.NAME).write_text("theirs\n")
    with pytest.raises(CommandError, match="belongs to another database"):
        call_command("collectartifacts")
