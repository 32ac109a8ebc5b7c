"""Programs as people write them, run for real: through the agent, the keeper and the launch code."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.workers.agent.test_whole_node import gone
from tests.workers.agent.waiting import until
from tests.workers.contract import programs
from tests.workers.contract.house import house


def test_a_plain_loop_that_is_preempted_and_resumed_ends_with_the_bytes_of_an_undisturbed_one(tmp_path: Path) -> None:
    with house(tmp_path) as at:
        undisturbed, disturbed = at.start(programs.LOOP), at.start(programs.LOOP)
        at.progressed(disturbed, 8)
        stopped = at.preempt(disturbed)
        assert (stopped["outcome"], stopped["exit_code"], stopped["detail"]) == ("PREEMPTED", 85, "confirmed")
        again = at.start(programs.LOOP, resume=at.resume(stopped), number=2)
        whole, resumed = at.end(undisturbed), at.end(again)
        assert (whole["outcome"], resumed["outcome"]) == ("SUCCEEDED", "SUCCEEDED")
        assert at.log(again) == f"resumed at {stopped['step']}\n"
        assert at.output(resumed) == at.output(whole)


def test_a_checkpoint_on_the_way_is_in_the_store_in_two_parts_while_the_job_runs(tmp_path: Path) -> None:
    with house(tmp_path) as at:
        job = at.start(programs.STUBBORN)
        (report,) = until(lambda: at.server.got("checkpoint", job), "the checkpoint on the way")
        kept = at.server.artifacts[report["artifact"]]["bytes"]
        assert (report["step"], kept["framework/step-3/w"]) == (3, b"good")
        assert json.loads(kept["experiment.json"])["step"] == 3
        assert not at.server.got("finished", job)
        at.server.want(job, "kill", "cancel")
        assert at.end(job)["outcome"] == "CANCELLED"


def test_one_that_ignores_sigterm_is_killed_when_the_server_says_and_its_last_declared_checkpoint_counts(
    tmp_path: Path,
) -> None:
    with house(tmp_path) as at:
        job = at.start(programs.STUBBORN)
        at.progressed(job)
        at.server.want(job, "stop", "preempt")
        until(lambda: at.node.file("stop.json", job), "the stop on record")
        at.server.want(job, "kill", "preempt")
        report = at.end(job)
        assert (report["outcome"], report["detail"], report["step"]) == ("PREEMPTED", "grace exceeded", 3)
        assert sorted(at.checkpoint(report)) == ["experiment.json", "framework/step-3/w"]


def test_one_that_exits_0_after_sigterm_without_saving_is_preempted_and_not_done(tmp_path: Path) -> None:
    with house(tmp_path) as at:
        job = at.start(programs.POLITE)
        at.progressed(job)
        report = at.preempt(job)
        said = (report["outcome"], report["exit_code"], report["detail"], report["checkpoint"])
        assert said == ("PREEMPTED", 0, "unconfirmed", None)


def test_one_that_is_known_to_finish_after_sigterm_is_done_by_its_0(tmp_path: Path) -> None:
    with house(tmp_path) as at:
        job = at.start(programs.POLITE, params={"exit_zero_after_signal": "success"})
        at.progressed(job)
        assert at.preempt(job)["outcome"] == "SUCCEEDED"


def test_a_shell_script_saves_on_the_signal_and_goes_on_from_there(tmp_path: Path) -> None:
    with house(tmp_path) as at:
        (tmp_path / "run.sh").write_text(programs.SHELL)
        params = {"shell": f"sh {tmp_path}/run.sh"}
        job = at.grant(params)
        at.progressed(job, 3)
        stopped = at.preempt(job)
        assert (stopped["outcome"], stopped["detail"]) == ("PREEMPTED", "confirmed")
        reached = int(at.checkpoint(stopped)["framework/n"])
        again = at.grant(params, resume=at.resume(stopped))
        at.progressed(again)
        assert at.server.got("progress", again)[0]["step"] > reached
        at.server.want(again, "kill", "cancel")
        at.end(again)


def test_one_that_dies_at_import_fails_with_its_last_words_and_its_traceback_in_the_log(tmp_path: Path) -> None:
    with house(tmp_path) as at:
        job = at.start("import no_such_module_anywhere\n")
        report = at.end(job)
        assert (report["outcome"], report["exit_code"]) == ("FAILED", 1)
        words = "ModuleNotFoundError: No module named 'no_such_module_anywhere'"
        assert report["error"] == f'exit code 1; the last line of its log: "{words}"'
        assert words in at.log(job)


def test_a_log_of_1_gigabyte_is_cut_in_the_store_and_the_job_is_not_killed_for_it(tmp_path: Path) -> None:
    with house(tmp_path) as at:
        job = at.start(programs.FLOOD, "1000", log_bytes=2**16)
        report = at.end(job)
        log = at.log(job)
        assert report["outcome"] == "SUCCEEDED"
        assert (log.startswith("first words\nflood"), log.endswith("\nlast words\n")) == (True, True)
        assert len(log) < 2**16 + 200
        assert "bytes of log left out: log_bytes is 65536" in log


def test_a_flooded_log_takes_no_more_of_the_disk_than_its_ends(tmp_path: Path) -> None:
    with house(tmp_path) as at:
        job = at.start(programs.FLOOD + "import time\nwhile True: time.sleep(0.02)\n", "100", log_bytes=2**16)
        stdout = at.node.state.attempts / f"{job}-1" / "stdout"
        until(lambda: stdout.exists() and stdout.stat().st_size > 100 * 2**20, "the flood")
        until(lambda: stdout.stat().st_blocks * 512 < 2**18, "the room given back")
        at.server.want(job, "kill", "cancel")
        at.end(job)


def test_children_that_are_left_behind_are_gone_when_the_job_is_reported(tmp_path: Path) -> None:
    with house(tmp_path) as at:
        job = at.start(programs.LITTER)
        assert at.end(job)["outcome"] == "SUCCEEDED"
        left = [int(pid) for pid in at.log(job).split()]
        assert [pid for pid in left if not gone(pid)] == []
        assert len(left) == 2


def test_one_that_fills_its_share_of_the_disk_is_ended_and_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMEP_JOB_DISK_BYTES", str(8 * 2**20))
    with house(tmp_path) as at:
        report = at.end(at.start(programs.GREEDY))
        assert (report["outcome"], report["detail"]) == ("FAILED", "disk_quota")
        assert "limit for one job is 8388608 (job_disk_bytes)" in report["error"]


def test_the_results_of_a_program_that_knows_nothing_are_what_it_left(tmp_path: Path) -> None:
    text = (
        "import os, pathlib, subprocess, sys\n"
        "out = pathlib.Path(os.environ['EMEP_OUTPUT_DIR'])\n"
        "(out / 'deep').mkdir(); (out / 'deep' / 'r.txt').write_text(os.environ['GREETING'])\n"
        "print(pathlib.Path.cwd().name, 'SLURM_JOB_ID' in os.environ)\n"
    )
    with house(tmp_path) as at:
        job = at.start(text, params={"env": {"GREETING": "hello"}, "cwd": "scratch"})
        report = at.end(job)
        assert at.output(report) == {"deep/r.txt": b"hello"}
        assert at.log(job) == "scratch False\n"


def test_a_job_may_be_asked_by_another_signal(tmp_path: Path) -> None:
    with house(tmp_path) as at:
        job = at.start(programs.LOOP, params={"preempt_signal": "SIGUSR1", "checkpoint_exit_code": 99})
        at.progressed(job)
        report = at.preempt(job)
        assert (report["exit_code"], report["detail"]) == (99, "confirmed")


def test_a_program_finds_its_files_and_inputs_where_they_were_said_to_be(tmp_path: Path) -> None:
    with house(tmp_path) as at:
        content = b"import os; print(open(os.environ['EMEP_INPUT_DIR'] + '/base/w').read())\n"
        inputs = []
        for name, path, data in (("files", "main.py", content), ("base", "w", b"weights")):
            at.server.inputs[(f"art-{name}", path)] = data
            entry = {"path": path, "size": len(data), "sha256": _sha256(data)}
            inputs.append({"artifact": f"art-{name}", "as": name, "files": [entry]})
        job = at.grant({"argv": [sys.executable, "main.py"], "files": "code"}, inputs=inputs)
        assert (at.end(job)["outcome"], at.log(job)) == ("SUCCEEDED", "weights\n")


def _sha256(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()
