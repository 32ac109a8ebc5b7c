"""The table of endings, row by row."""

from __future__ import annotations

import pytest

from tests.workers.agent.world import REF
from workers.agent.contract import Contract
from workers.agent.messages import Exited, StopAsked
from workers.agent.outcome import Exit, Facts, decide
from workers.agent.verdict import verdict
from workers.protocol import Outcome

ARTIFACT = {"type": "artifact", "name": "merged", "path": "model"}


@pytest.mark.parametrize(
    ("asked", "end", "facts", "outcome", "detail"),
    [
        (None, Exit(0), Facts(), "SUCCEEDED", ""),
        (None, Exit(85), Facts(), "PREEMPTED", "yielded"),
        (None, Exit(1), Facts(), "FAILED", ""),
        (None, Exit(1), Facts(error_code="nan", error_message="loss is NaN"), "FAILED", "nan"),
        (None, Exit(1), Facts(error_code="out_of_memory"), "OOM", "out of memory"),
        (None, Exit(2), Facts(error_code="no_space", error_message="disk full"), "LOST", "no_space"),
        (None, Exit(signal=11), Facts(), "FAILED", ""),
        (None, Exit(127, cause="exec", error="cannot run 'x'"), Facts(), "FAILED", ""),
        (None, Exit(signal=9, memory_limit=2**30), Facts(), "OOM", "host memory"),
        (None, Exit(1, memory_limit=2**30), Facts(error_code="nan"), "OOM", "host memory"),
        (None, Exit(0, memory_limit=2**30), Facts(), "SUCCEEDED", ""),
        (None, Exit(85, memory_limit=2**30), Facts(), "PREEMPTED", "yielded"),
        ("preempt", Exit(signal=9, memory_limit=2**30), Facts(), "PREEMPTED", "unconfirmed"),
        (None, Exit(127, cause="node", error="it can't be enforced"), Facts(), "LOST", "node"),
        ("preempt", Exit(0), Facts(done=True), "SUCCEEDED", ""),
        ("preempt", Exit(1), Facts(done=True), "SUCCEEDED", ""),
        ("preempt", Exit(signal=9, cause="kill"), Facts(done=True), "SUCCEEDED", ""),
        ("preempt", Exit(0), Facts(done_file=True), "SUCCEEDED", ""),
        ("preempt", Exit(1), Facts(done_file=True), "PREEMPTED", "unconfirmed"),
        ("preempt", Exit(85), Facts(), "PREEMPTED", "confirmed"),
        ("preempt", Exit(0), Facts(checkpoint_after_stop=True), "PREEMPTED", "confirmed"),
        ("preempt", Exit(1), Facts(checkpoint_after_stop=True), "PREEMPTED", "confirmed"),
        ("preempt", Exit(0), Facts(), "PREEMPTED", "unconfirmed"),
        ("preempt", Exit(1), Facts(), "PREEMPTED", "unconfirmed"),
        ("preempt", Exit(signal=15), Facts(), "PREEMPTED", "unconfirmed"),
        ("preempt", Exit(signal=15), Facts(checkpoint_after_stop=True), "PREEMPTED", "confirmed"),
        ("preempt", Exit(signal=9, cause="kill"), Facts(), "PREEMPTED", "grace exceeded"),
        ("preempt", Exit(1), Facts(yielded=True), "PREEMPTED", "confirmed"),
        (None, Exit(1), Facts(yielded=True), "PREEMPTED", "yielded"),
        ("drain", Exit(85), Facts(), "PREEMPTED", "confirmed"),
        ("peer", Exit(85), Facts(), "PREEMPTED", "confirmed"),
        ("peer", Exit(1), Facts(), "PREEMPTED", "unconfirmed"),
        ("peer", Exit(signal=9, cause="kill"), Facts(), "PREEMPTED", "grace exceeded"),
        ("health", Exit(85), Facts(), "PREEMPTED", "confirmed"),
        ("cancel", Exit(85), Facts(), "CANCELLED", "confirmed"),
        ("cancel", Exit(signal=9, cause="kill"), Facts(), "CANCELLED", "grace exceeded"),
        ("cancel", Exit(0), Facts(done=True), "SUCCEEDED", ""),
        ("time_limit", Exit(85), Facts(), "TIMED_OUT", "confirmed"),
        ("time_limit", Exit(signal=9, cause="kill"), Facts(), "TIMED_OUT", "grace exceeded"),
        ("time_limit", Exit(0), Facts(done=True), "SUCCEEDED", ""),
        (None, Exit(signal=15, cause="fence"), Facts(), "LOST", "fence"),
        ("preempt", Exit(85, cause="fence"), Facts(), "LOST", "fence"),
        (None, Exit(cause="keeper"), Facts(), "LOST", "keeper"),
        (None, Exit(signal=9, cause="guard"), Facts(), "LOST", "guard"),
        ("lost", Exit(85), Facts(), "LOST", "exit"),
        ("lost", Exit(0), Facts(done=True), "LOST", "exit"),
        (None, Exit(1), Facts(done=True), "FAILED", ""),
        ("disk_quota", Exit(signal=9, cause="kill"), Facts(), "FAILED", "disk_quota"),
    ],
)
def test_each_row_of_the_table(asked: str | None, end: Exit, facts: Facts, outcome: str, detail: str) -> None:
    ending = decide(end, facts, asked=asked)
    assert (ending.outcome, ending.detail) == (Outcome(outcome), detail)


@pytest.mark.parametrize(
    ("asked", "end", "outcome", "detail"),
    [
        (None, Exit(99), "PREEMPTED", "yielded"),
        (None, Exit(85), "FAILED", ""),
        ("preempt", Exit(99), "PREEMPTED", "confirmed"),
        ("preempt", Exit(85), "PREEMPTED", "unconfirmed"),
        ("preempt", Exit(0), "SUCCEEDED", ""),
    ],
)
def test_a_job_may_have_its_own_code_and_mean_done_by_0(
    asked: str | None, end: Exit, outcome: str, detail: str
) -> None:
    ending = decide(end, Facts(), asked=asked, contract=Contract(checkpoint_exit_code=99, zero_is_done=True))
    assert (ending.outcome, ending.detail) == (Outcome(outcome), detail)


def test_outputs_are_published_on_success_only() -> None:
    facts = Facts(artifacts=(ARTIFACT,))
    assert decide(Exit(0), facts, asked=None).outputs == (ARTIFACT,)
    assert decide(Exit(1), facts, asked=None).outputs == ()
    assert decide(Exit(85), facts, asked="preempt").outputs == ()


@pytest.mark.parametrize(
    ("asked", "end", "wanted"),
    [
        ("preempt", Exit(85), True),
        ("preempt", Exit(signal=9, cause="kill"), True),
        (None, Exit(85), True),
        ("time_limit", Exit(85), True),
        ("time_limit", Exit(signal=9, cause="kill"), False),
        ("cancel", Exit(85), True),
        ("cancel", Exit(signal=9, cause="kill"), False),
        ("cancel", Exit(signal=15), False),
        (None, Exit(0), False),
        (None, Exit(cause="fence"), False),
    ],
)
def test_a_checkpoint_is_taken_where_a_later_run_may_resume(asked: str | None, end: Exit, wanted: bool) -> None:
    assert decide(end, Facts(), asked=asked).checkpoint is wanted


@pytest.mark.parametrize(("end", "advice"), [(Exit(85), "goes on from there"), (Exit(signal=15), "ask for more")])
def test_a_job_out_of_time_is_told_what_helps(end: Exit, advice: str) -> None:
    assert advice in decide(end, Facts(), asked="time_limit").error


def test_a_failure_names_the_jobs_own_error_and_the_exit() -> None:
    facts = Facts(error_code="nan", error_message="loss is NaN")
    assert decide(Exit(3), facts, asked=None).error == "nan: loss is NaN (exit code 3)"


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (Exit(3), "exit code 3; the last line of its log: 'no such file'"),
        (Exit(signal=11), "ended by signal 11; the last line of its log: 'no such file'"),
        (Exit(127, cause="exec", error="cannot run 'x'"), "cannot run 'x'"),
    ],
)
def test_a_failure_that_declared_nothing_quotes_what_it_wrote_last(end: Exit, error: str) -> None:
    assert decide(end, Facts(last_words="no such file"), asked=None).error == error


def test_what_is_quoted_of_a_long_line_is_short() -> None:
    assert len(decide(Exit(3), Facts(last_words="x" * 5000), asked=None).error) < 400


def test_a_kill_that_was_not_ours_hints_at_the_kernel() -> None:
    assert "out-of-memory" in decide(Exit(signal=9), Facts(), asked=None).error


def test_a_job_without_enough_host_memory_is_told_the_limit_and_what_helps() -> None:
    said = decide(Exit(signal=9, memory_limit=2**30), Facts(error_code="oom"), asked=None).error
    assert "more of the host's memory than its node grants one job: the limit is 1073741824 bytes" in said
    assert "ask an operator to raise the limit; this is not the GPU's memory" in said


@pytest.mark.parametrize(
    ("kill_at", "died_at", "manner"),
    [(130.0, 131.0, "grace exceeded"), (130.0, 110.0, "killed by force"), (100.0, 100.5, "killed by force")],
)
def test_a_kill_by_force_is_not_taken_for_the_end_of_a_grace(kill_at: float, died_at: float, manner: str) -> None:
    assert told_manner("cancel", kill_at, died_at) == manner


@pytest.mark.parametrize(
    ("why", "kill_at", "died_at", "manner"),
    [
        ("health", 100.0, 100.5, "killed by force"),
        ("preempt", 100.0, 100.5, "killed by force"),
        ("health", 130.0, 110.0, "killed by force"),
        ("health", 130.0, 130.5, "grace exceeded"),
        ("preempt", None, 130.5, "grace exceeded"),
    ],
)
def test_who_was_given_no_grace_has_not_exceeded_it_whatever_the_cause(
    why: str, kill_at: float | None, died_at: float, manner: str
) -> None:
    assert told_manner(why, kill_at, died_at) == manner


def told_manner(why: str, kill_at: float | None, died_at: float) -> str:
    """The manner of the end by a kill at that time, of what was asked to stop at 100."""
    stop = StopAsked(why, 100.0, kill_at)
    end = Exited(REF, Exit(signal=9, cause="kill", at=died_at), Facts())
    ending, _ = verdict(end, launch=None, stop=stop, spared=False, over=None)
    return ending.detail
