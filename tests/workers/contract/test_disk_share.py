"""Inputs that don't fit into a node's share of the disk are told as such; a program answers for what it wrote."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from tests.workers.agent.server import launch_of
from tests.workers.agent.world import REF, World, of, run
from workers.agent import messages as m
from workers.agent.client import Api
from workers.agent.devices_release import Departures
from workers.agent.disk_share import Brought, brought, over_words, taken, too_much
from workers.agent.statedir import StateDir
from workers.agent.transfers import Transfers
from workers.protocol import Launch, Timings

BLOCK = 4096


def file(name: str, blocks: int) -> dict[str, Any]:
    return {"path": name, "size": blocks * BLOCK - 1, "sha256": name[0] * 64}


def granted(*, resume: int = 0) -> Launch:
    """A launch with two inputs of 3 blocks, 2 of them in both, and a checkpoint of so many."""
    inputs = [
        {"as": "a", "artifact": "A", "files": [file("0", 2)]},
        {"as": "b", "artifact": "B", "files": [file("0", 2), file("1", 1)]},
    ]
    ck = {"artifact": "C", "step": 5, "files": [file("2", resume)]} if resume else None
    return cast(Launch, launch_of(inputs=inputs, resume=ck))


def test_what_is_brought_is_known_from_the_sizes_and_the_same_content_counts_once() -> None:
    assert brought(granted(resume=4)) == Brought(inputs=3 * BLOCK, checkpoint=4 * BLOCK)


@pytest.mark.parametrize("limit", [3 * BLOCK, 3 * BLOCK + 1])
def test_inputs_that_just_fit_are_no_trouble(limit: int) -> None:
    assert too_much(granted(), limit) == ""


def test_inputs_beyond_the_share_are_told_with_both_sizes_and_what_to_do() -> None:
    assert too_much(granted(), 3 * BLOCK - 1) == (
        "its inputs alone take 12288 bytes of disk, this node's limit for one job is 12287 (job_disk_bytes): let the "
        "job run where more is granted (affinity), or ask an operator to raise it"
    )


def test_a_checkpoint_that_makes_it_too_much_is_named_beside_the_inputs() -> None:
    assert too_much(granted(resume=4), 6 * BLOCK).startswith(
        "its inputs (12288 bytes) and the checkpoint that it goes on from (16384 bytes) alone take 28672 bytes of "
        "disk, this node's limit for one job is 24576 (job_disk_bytes)"
    )


def test_nothing_is_fetched_of_what_is_too_much_and_another_node_may_do_it(tmp_path: Path) -> None:
    told: list[m.Event] = []
    nowhere = cast(Api, None)  # a call to the server would end in an error of another text
    transfers = Transfers(
        StateDir(tmp_path), nowhere, cast(Departures, None), timings=Timings, disk_bytes=BLOCK,
        later=lambda work: work(), post=told.append,
    )  # fmt: skip
    transfers.prepare(m.Prepare(REF, granted()))
    assert told == [m.PrepareFailed(REF, too_much(granted(), BLOCK), retryable=True)]


def test_what_a_program_wrote_is_told_apart_from_its_inputs(tmp_path: Path) -> None:
    for place, blocks in (("a/0", 2), ("b/1", 1)):
        (tmp_path / "work/input" / place).parent.mkdir(parents=True)
        (tmp_path / "work/input" / place).write_bytes(b"x" * blocks * BLOCK)
    os.link(tmp_path / "work/input/a/0", tmp_path / "work/input/b/0")
    nothing, _ = taken(tmp_path, granted())
    (tmp_path / "work/output").mkdir()
    (tmp_path / "work/output/big").write_bytes(b"x" * 5 * BLOCK)
    used, inputs = taken(tmp_path, granted())
    assert inputs == 3 * BLOCK
    assert 5 * BLOCK <= used - nothing <= 6 * BLOCK  # the directory itself may take a block


def test_what_a_program_puts_beside_its_inputs_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "work/input").mkdir(parents=True)
    (tmp_path / "work/input/mine").write_bytes(b"x" * 50 * BLOCK)
    used, inputs = taken(tmp_path, granted())
    assert inputs == 3 * BLOCK
    assert used - inputs >= 47 * BLOCK


def test_a_program_over_the_share_hears_what_it_wrote_and_what_its_inputs_are() -> None:
    assert over_words(m.OverQuota(REF, 900, 500, inputs=300)) == (
        "it wrote 600 bytes of disk, its inputs 300, the node's limit for one job is 500 (job_disk_bytes): write less, "
        "keep fewer checkpoints, or ask an operator to raise it"
    )


def test_one_without_inputs_hears_only_of_what_it_wrote() -> None:
    assert over_words(m.OverQuota(REF, 900, 500)).startswith(
        "it wrote 900 bytes of disk, the node's limit for one job is 500 (job_disk_bytes)"
    )


def test_inputs_that_are_too_much_end_the_attempt_as_the_nodes_trouble() -> None:
    world = World().registered()
    world.beat(run())
    world.tell(m.Claimed(REF, granted()))
    (stored,) = of(world.tell(m.PrepareFailed(REF, "its inputs alone", retryable=True)), m.StoreFinished)
    assert (stored.report["outcome"], stored.report["detail"]) == ("LOST", "inputs")
