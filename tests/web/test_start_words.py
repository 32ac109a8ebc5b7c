"""A granted job's page says what each of its nodes does until it runs."""

from __future__ import annotations

import pytest

from scheduling.services import pool
from scheduling.store.queries import jobs as queries
from scheduling.web.start_words import until_it_runs
from tests import builders as b
from tests.web.pages import browser, text
from workers.protocol import Transfer


def told(transfer=None, **by):
    starting = {"unclaimed": [], "preparing": [], "ready": [], "started": [], **by}
    return until_it_runs({"starting": starting, "transfer": transfer})


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ({"unclaimed": ["n1"]}, "waiting for the node to take it"),
        ({"unclaimed": ["n1", "n2"]}, "waiting for n1 and n2 to take it"),
        ({"unclaimed": ["n2"], "ready": ["n1"]}, "waiting for n2 to take it; n1 is ready"),
        ({"preparing": ["n1"]}, "n1 prepares its start"),
        ({"preparing": ["n2", "n3"], "started": ["n1"]}, "n2 and n3 prepare its start; n1 has started"),
        ({"ready": [f"n{i}" for i in range(4)]}, "n0, n1, n2 and n3 are ready"),
        ({"ready": [f"n{i}" for i in range(5)]}, "n0, n1, n2 and 2 more are ready"),
    ],
)
def test_the_nodes_are_told_by_what_they_do(by, words):
    assert told(**by) == words


def test_of_one_node_it_is_told_what_it_fetches():
    fetching = {"node": "n1", "what": Transfer.FETCH_INPUTS.value}
    assert told(fetching, preparing=["n1"]) == "n1 is fetching its inputs"


def test_of_several_it_is_told_which_one_fetches():
    fetching = {"node": "n2", "what": Transfer.FETCH_CHECKPOINT.value}
    assert told(fetching, preparing=["n1", "n2"]) == (
        "n1 and n2 prepare its start (n2 is fetching the checkpoint that it goes on from)"
    )


@pytest.fixture
def granted(db, lab):
    """A job of 2 GPUs on n1 that was granted just now, and what its node has for it."""
    job = b.submitted(lab.who["alice"], b.merge_body(lab.models))
    b.ticked()
    node = queries.as_dict(queries.full(queries.Job.objects.filter(pk=job)).get())["gpus"][0]["node"]
    (wanted,) = b.beat(node)["desired"]
    return job, node, wanted


def test_its_page_says_when_the_node_fetches_and_how_much_of_how_much(granted, monkeypatch):
    job, node, wanted = granted
    monkeypatch.setattr("scheduling.web.job.now", lambda: b.later(3))
    assert "waiting for the node to take it." in text(browser().get(f"/jobs/{job}/"))
    pool.claim(node, wanted["attempt"], wanted["epoch"], b.later(1))
    assert f"{node} prepares its start." in text(browser().get(f"/jobs/{job}/"))
    moved = {"what": "fetching inputs", "files": 0, "of_files": 1, "bytes": 300_000, "of_bytes": 20_500_000}
    whose = {"type": "transfer", "attempt": wanted["attempt"], "epoch": wanted["epoch"], "over": False}
    b.beat(node, now=b.later(2), reports=[{**whose, **moved}])
    html = text(browser().get(f"/jobs/{job}/"))
    assert f"Granted 2 GPUs of {node}; {node} is fetching its inputs." in html
    assert "fetching inputs: 0 of 1 file, 0.3 of 20.5 MB" in html


def test_rest_tells_the_nodes_by_what_they_do(granted):
    job, node, wanted = granted
    row = queries.full(queries.Job.objects.filter(pk=job))
    assert queries.as_dict(row.get())["starting"] == {"unclaimed": [node], "preparing": [], "ready": [], "started": []}
    pool.claim(node, wanted["attempt"], wanted["epoch"], b.later(1))
    assert queries.as_dict(row.get())["starting"]["preparing"] == [node]
    b.beat(
        node,
        now=b.later(2),
        reports=[{"type": "started", "attempt": wanted["attempt"], "epoch": wanted["epoch"], "pid": 1}],
    )
    assert queries.as_dict(row.get())["starting"] is None
