"""The whole state table, written a second time by hand, and the laws it must keep."""

from __future__ import annotations

from itertools import product

import pytest

from scheduling.core.lifecycle import (
    INITIAL,
    LIVE,
    NODE_TABLE,
    TABLE,
    TERMINAL,
    JobEvent,
    JobState,
    NodeEvent,
    NodeState,
    advance,
    advance_node,
    mermaid,
    node_sources_of,
    sources_of,
)

LEGAL = {
    "HOLD": {"QUEUED": "HELD"},
    "RELEASE": {"HELD": "QUEUED"},
    "GRANT": {"QUEUED": "DISPATCHING"},
    "START": {"DISPATCHING": "RUNNING"},
    "PREEMPT": {"RUNNING": "PREEMPTING"},
    "SPARE": {"PREEMPTING": "RUNNING"},
    "CANCEL": {
        "QUEUED": "CANCELLED",
        "HELD": "CANCELLED",
        "DISPATCHING": "CANCELLING",
        "RUNNING": "CANCELLING",
        "PREEMPTING": "CANCELLING",
    },
    "REQUEUE": {"DISPATCHING": "QUEUED", "RUNNING": "QUEUED", "PREEMPTING": "QUEUED"},
    "SUCCEED": {"RUNNING": "SUCCEEDED", "PREEMPTING": "SUCCEEDED"},
    "FAIL": {
        "QUEUED": "FAILED",
        "HELD": "FAILED",
        "DISPATCHING": "FAILED",
        "RUNNING": "FAILED",
        "PREEMPTING": "FAILED",
    },
    "TIME_OUT": {"RUNNING": "TIMED_OUT", "PREEMPTING": "TIMED_OUT"},
    "STOPPED": {"CANCELLING": "CANCELLED"},
}
NODES = {
    "REGISTER": {"LOST": "READY", "READY": "READY", "CORDONED": "CORDONED", "DRAINING": "DRAINING"},
    "LOSE": {"READY": "LOST", "CORDONED": "LOST", "DRAINING": "LOST"},
    "CORDON": {"READY": "CORDONED", "DRAINING": "CORDONED"},
    "DRAIN": {"READY": "DRAINING", "CORDONED": "DRAINING"},
    "RETURN": {"CORDONED": "READY", "DRAINING": "READY"},
}


@pytest.mark.parametrize(("state", "event"), list(product(JobState, JobEvent)))
def test_each_pair_of_state_and_event_does_what_the_table_says_or_is_refused(state, event):
    assert advance(state, event) == LEGAL[event].get(state)


@pytest.mark.parametrize(("state", "event"), list(product(NodeState, NodeEvent)))
def test_each_pair_of_node_state_and_event_does_what_the_table_says_or_is_refused(state, event):
    assert advance_node(state, event) == NODES[event].get(state)


@pytest.mark.parametrize("event", list(JobEvent))
def test_the_sources_of_an_event_are_the_states_it_is_legal_in(event):
    assert sources_of(event) == {JobState(state) for state in LEGAL[event]}


@pytest.mark.parametrize("event", list(NodeEvent))
def test_the_sources_of_a_node_event_are_the_states_it_is_legal_in(event):
    assert node_sources_of(event) == {NodeState(state) for state in NODES[event]}


def test_terminal_states_are_immutable():
    assert not [state for state, _ in TABLE if state in TERMINAL]


def test_every_state_is_waiting_live_or_terminal_and_none_is_two_of_them():
    waiting = {JobState.QUEUED, JobState.HELD}
    assert sorted([*waiting, *LIVE, *TERMINAL]) == sorted(JobState)


def test_every_state_can_be_reached_from_a_first_one():
    reached = set(INITIAL)
    for _ in JobState:
        reached |= {after for (state, _), after in TABLE.items() if state in reached}
    assert reached == set(JobState)


def test_from_every_state_that_is_not_terminal_an_end_can_be_reached():
    ends = set(TERMINAL)
    for _ in JobState:
        ends |= {state for (state, _), after in TABLE.items() if after in ends}
    assert ends == set(JobState)


def test_a_node_that_registers_again_keeps_what_an_operator_said_about_it():
    kept = {state: NODE_TABLE[(state, NodeEvent.REGISTER)] for state in (NodeState.CORDONED, NodeState.DRAINING)}
    assert kept == {NodeState.CORDONED: NodeState.CORDONED, NodeState.DRAINING: NodeState.DRAINING}


def test_the_diagram_shows_every_transition_once():
    drawn = [line.strip() for line in mermaid().splitlines()]
    assert sorted(line for line in drawn if ": " in line) == sorted(
        f"{state} --> {after}: {event}" for event, pairs in LEGAL.items() for state, after in pairs.items()
    )


def test_the_diagram_shows_where_jobs_begin_and_end():
    drawn = [line.strip() for line in mermaid().splitlines()]
    ends = ["CANCELLED", "FAILED", "REJECTED", "SUCCEEDED", "TIMED_OUT"]
    assert sorted(line for line in drawn if "[*]" in line) == sorted(
        ["[*] --> QUEUED", "[*] --> REJECTED", *(f"{state} --> [*]" for state in ends)]
    )
