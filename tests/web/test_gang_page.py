"""The page of a job on several nodes: each node's part, and each node's log."""

from __future__ import annotations

import pytest

from tests.services.test_gangs import two
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db


@pytest.fixture
def gang():
    made = two()
    for node in made.ranks:
        made.says(node, type="logs", offset=0, text=f"hello from {node}\n")
    return made


def test_it_shows_what_each_node_does(gang):
    gang.at = 60
    gang.ends("n2", "FAILED", error="exit code 1")
    html = " ".join(text(browser().get(f"/jobs/{gang.job}/")).split())
    assert 'rank 0: <a href="/nodes/n1/">n1</a>, GPU 0, GPU 1 (NVLink n1-nv) · running' in html
    assert 'rank 1: <a href="/nodes/n2/">n2</a>, GPU 0, GPU 1 (NVLink n2-nv) · failed' in html
    assert "on 2 nodes, 2 each" in html
    assert "<code>python train.py</code>" in html


@pytest.mark.parametrize(("query", "node"), [("", "n1"), ("?node=n1", "n1"), ("?node=n2", "n2")])
def test_the_log_is_that_of_the_node_that_was_chosen(gang, query, node):
    html = text(browser().get(f"/jobs/{gang.job}/{query}"))
    assert f">hello from {node}\n</pre>" in html
    assert f"<b>{node}</b>" in html
    assert f'href="/jobs/{gang.job}/log.txt?node={node}"' in html
    assert browser().get(f"/jobs/{gang.job}/log/?node={node}").json()["text"] == f"hello from {node}\n"
    assert b"".join(browser().get(f"/jobs/{gang.job}/log.txt?node={node}")).decode() == f"hello from {node}\n"


@pytest.mark.parametrize("path", ["?node=n9", "log/?node=n9", "log.txt?node=n9"])
def test_a_node_without_a_part_in_it_is_not_found(gang, path):
    assert browser().get(f"/jobs/{gang.job}/{path}").status_code == 404
