"""A verdict is given where its limit applies; a run of another size says that it doesn't, and why."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from benchmarks import core, policy

EXCERPT = Path(__file__).parent.parent / "data" / "philly_excerpt_jobs.csv"


@pytest.fixture
def traces(tmp_path):
    """A directory with the first 12 jobs of Philly as its whole trace."""
    lines = EXCERPT.read_text().splitlines()[:13]
    (tmp_path / "philly_dev_jobs.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    return tmp_path


def printed(traces, capsys, *arguments: str) -> list[str]:
    policy.main([f"--traces={traces}", "--trace=philly", *arguments])
    return capsys.readouterr().out.splitlines()


def verdicts(lines) -> int:
    return sum("ok)" in line or "SHORT)" in line for line in lines)


def test_the_whole_trace_with_the_defaults_is_judged(traces, capsys):
    lines = printed(traces, capsys)
    assert verdicts(lines) == 5
    assert not any("no verdicts" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--jobs=5"], "5 of the 12 jobs are replayed (--jobs)"),
        (["--restore=60"], "--restore is not the default"),
        (["--restore=60", "--reference=fifo"], "--restore, --reference are not the default"),
    ],
)
def test_another_run_has_no_verdicts_and_says_why(traces, capsys, arguments, why):
    lines = printed(traces, capsys, *arguments)
    assert verdicts(lines) == 0
    assert lines[-1] == f"no verdicts: the limits are for the whole trace and the defaults, and here {why}"


def test_as_many_jobs_as_there_are_is_the_whole_trace(traces, capsys):
    assert verdicts(printed(traces, capsys, "--jobs=12")) == 5


def test_a_policy_that_names_whom_the_trace_lacks_is_noted(traces, capsys, tmp_path):
    path = tmp_path / "policy.json"
    path.write_text('{"project_weights": {"nobody": 2}}')
    lines = printed(traces, capsys, f"--policy={path}", "--restore=60")
    assert any(line.startswith("note: project_weights of the policy names 'nobody'") for line in lines)


def measured(releases: int) -> dict[tuple[int, int], core.Found]:
    return {(core.LARGE, core.MANY_GPUS): core.Found(1.0, 0.5, 9, 100.0, (0.001,) * releases, (0.001,) * releases,
                                                     (), None)}  # fmt: skip


def test_figures_of_the_core_are_judged_for_the_releases_that_the_limits_are_for(capsys):
    core.judge(measured(200))
    lines = capsys.readouterr().out.splitlines()
    assert (verdicts(lines), lines[-1]) == (
        4, "limits that are not judged here are for 10000 x 10000, 10000 x 1000 (--waiting x --gpus)",
    )  # fmt: skip


def test_fewer_releases_have_no_verdicts_and_say_so(capsys):
    core.judge(measured(3), releases=3)
    lines = capsys.readouterr().out.splitlines()
    assert verdicts(lines) == 0
    assert "no verdicts: the limits are for 200 jobs that end, and here 3 jobs end (--releases)" in lines
