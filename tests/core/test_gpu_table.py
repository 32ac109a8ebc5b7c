"""The state table of GPUs, written a second time by hand, and the laws it must keep."""

from __future__ import annotations

from itertools import product

import pytest

from scheduling.core.health import GPU_TABLE, GpuEvent, advance_gpu, gpu_sources_of
from scheduling.core.lifecycle import GpuState

LEGAL = {
    "DOUBT": {"HEALTHY": "SUSPECT"},
    "CLEAR": {"SUSPECT": "HEALTHY"},
    "CONDEMN": {"HEALTHY": "UNHEALTHY", "SUSPECT": "UNHEALTHY"},
    "QUARANTINE": {"HEALTHY": "QUARANTINED", "SUSPECT": "QUARANTINED", "UNHEALTHY": "QUARANTINED"},
    "RETURN": {"QUARANTINED": "HEALTHY"},
    "RETIRE": {"HEALTHY": "RETIRED", "SUSPECT": "RETIRED", "UNHEALTHY": "RETIRED", "QUARANTINED": "RETIRED"},
    "REINSTATE": {"RETIRED": "QUARANTINED"},
}


@pytest.mark.parametrize(("state", "event"), list(product(GpuState, GpuEvent)))
def test_each_pair_of_gpu_state_and_event_does_what_the_table_says_or_is_refused(state, event):
    assert advance_gpu(state, event) == LEGAL[event].get(state)


@pytest.mark.parametrize("event", list(GpuEvent))
def test_the_sources_of_a_gpu_event_are_the_states_it_is_legal_in(event):
    assert gpu_sources_of(event) == {GpuState(state) for state in LEGAL[event]}


def test_what_was_unhealthy_gets_work_again_through_the_quarantine_alone():
    into_service = {(state, event) for (state, event), after in GPU_TABLE.items() if after is GpuState.HEALTHY}
    assert into_service == {(GpuState.SUSPECT, GpuEvent.CLEAR), (GpuState.QUARANTINED, GpuEvent.RETURN)}
