"""Which function decides which invariant of the design, and why the others can't be decided from these logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.checker import (
    devices,
    evictions,
    fences,
    health,
    ledgers,
    lives,
    loops,
    predecessors,
    replaced,
    stored,
    turns,
)
from tests.checker.evidence import Evidence, Violation

Decides = Callable[[Evidence], Iterator[Violation]]

DECIDED: dict[Decides, str] = {
    devices.a_gpu_is_in_one_live_allocation: "I1",
    devices.a_gpu_is_held_by_processes_of_one_attempt: "I2",
    devices.processes_use_what_was_granted_and_end_before_its_release: "I3",
    lives.one_attempt_of_a_job_at_a_time: "I4",
    lives.every_job_ends_once: "I5",
    lives.only_published_edges_occur: "I6",
    fences.nothing_of_a_fenced_attempt_is_accepted: "I7",
    lives.an_acknowledged_submission_is_one_job: "I8",
    devices.an_attempt_is_granted_whole_and_ends_together: "I9",
    devices.an_nvlink_attempt_lies_in_one_group: "I10",
    devices.granted_gpus_were_fit_for_it: "I11",
    turns.nobody_plainly_ahead_is_passed_over: "I12",
    evictions.only_the_rule_table_evicts: "I14",
    evictions.no_eviction_is_in_vain: "I15",
    evictions.freed_gpus_go_to_whom_they_were_freed_for: "I17",
    lives.a_requeued_job_keeps_its_place: "I18",
    replaced.a_job_gives_way_to_one_and_before_it_ever_started: "I18",
    loops.nothing_goes_round_in_circles: "I19",
    stored.what_is_visible_is_whole: "I20",
    stored.a_job_resumes_where_it_was_saved: "I20",
    fences.a_node_is_lost_only_after_its_lease: "I21",
    devices.a_lost_node_has_stopped_its_processes: "I22",
    devices.a_silent_node_stops_its_processes: "I22",
    health.silence_is_no_failed_check: "I23",
    health.a_gpu_is_condemned_by_three_failures_in_a_row: "I23",
    ledgers.gpu_hours_are_charged_once: "I24",
    ledgers.fair_share_values_are_finite: "I25",
    lives.no_process_outlives_max_duration: "I26",
    lives.a_cancelled_job_starts_no_more_and_goes: "I27",
    lives.nothing_is_stuck: "I28",
    turns.nobody_waits_alone_beside_free_gpus: "I29",
    fences.one_scheduler_epoch_writes: "I32",
    fences.every_change_is_on_record_with_its_actor: "I33",
    stored.logs_are_bounded: "I35",
    predecessors.a_job_comes_after_those_that_it_waits_for: "I36",
}

NOT_DECIDED: dict[str, str] = {
    "I13": "keys of the order are not logged; its consequence is judged as I12, the order itself by tests/core",
    "I16": "needs a record of each cycle: what was free, and who waited",
    "I30": "reservations are not logged; tests/core and tests/simulation decide it",
    "I31": "what a scheduler saw is not logged; tests/core/test_agreement.py and tests/services/test_kept.py decide it",
    "I34": "there is nothing yet that notifies anybody outside",
}
