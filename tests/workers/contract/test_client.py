"""The one-file client: what a script says with it, what it hears, and that it is nothing outside EMEP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workers import emep_job as job

SOURCE = Path(job.__file__)


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This process takes itself for a job in ``tmp_path``; its handler is undone at the end."""
    monkeypatch.setattr(job, "_session", None)
    before = signal.getsignal(signal.SIGTERM)
    for name in ("CHECKPOINT", "INPUT", "OUTPUT", "SCRATCH"):
        (tmp_path / name.lower()).mkdir()
        monkeypatch.setenv(f"EMEP_{name}_DIR", str(tmp_path / name.lower()))
    monkeypatch.setenv("EMEP_EVENTS", str(tmp_path / "events"))
    monkeypatch.setenv("EMEP_PREEMPT_FILE", str(tmp_path / "preempt"))
    monkeypatch.delenv("RANK", raising=False)
    yield tmp_path
    signal.signal(signal.SIGTERM, before)


def events(tmp_path: Path) -> list[dict]:
    path = tmp_path / "events"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_progress_and_its_metrics_are_events(inside: Path) -> None:
    job.progress(3, 9, loss=0.5)
    assert events(inside) == [
        {"type": "progress", "step": 3, "total": 9, "unit": "step"},
        {"type": "metric", "name": "loss", "step": 3, "value": 0.5},
    ]


def test_a_metric_that_is_no_number_is_left_out_and_stops_nothing(inside: Path) -> None:
    job.metric("loss", float("nan"), 1)
    assert events(inside) == []


def test_artifact_error_and_done_are_events(inside: Path) -> None:
    job.artifact("net", "net", kind="model", accuracy=0.9)
    job.error("out_of_memory", "batch of 64")
    job.done()
    assert events(inside) == [
        {"type": "artifact", "name": "net", "path": "net", "kind": "model", "meta": {"accuracy": 0.9}},
        {"type": "error", "code": "out_of_memory", "message": "batch of 64", "details": {}},
        {"type": "done"},
    ]


def test_a_checkpoint_appears_whole_is_announced_and_replaces_the_one_before(inside: Path) -> None:
    for step in (1, 10, 9):
        with job.checkpoint(step) as directory:
            (directory / "w").write_text(str(step))
            assert directory.name.endswith(".tmp")
    assert [p.name for p in job.checkpoint_dir().iterdir()] == ["step-10"]
    assert [(e["step"], e["path"]) for e in events(inside)] == [(1, "step-1"), (10, "step-10"), (9, "step-9")]


def test_a_checkpoint_whose_saving_fails_never_appears(inside: Path) -> None:
    def save() -> None:
        with job.checkpoint(5) as directory:
            (directory / "w").write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        save()
    assert (list(job.checkpoint_dir().glob("step-*")), events(inside)) == ([], [])


def test_the_newest_completed_checkpoint_is_resumed_from(inside: Path) -> None:
    for step in (9, 10):
        with job.checkpoint(step, keep=2):
            pass
    assert job.resume_dir() == inside / "checkpoint" / "step-10"


def test_without_a_step_the_whole_directory_is_resumed_from(inside: Path) -> None:
    assert job.resume_dir() == inside / "checkpoint"


def test_sigterm_asks_to_stop_and_does_not_kill(inside: Path) -> None:
    assert job.should_stop() is False
    os.kill(os.getpid(), signal.SIGTERM)
    assert job.should_stop() is True


def test_the_preempt_file_asks_to_stop(inside: Path) -> None:
    (inside / "preempt").touch()
    assert job.should_stop() is True


def test_a_handler_of_a_framework_is_left_alone(inside: Path) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    job.attach()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN


def test_a_forked_worker_still_dies_of_sigterm(inside: Path) -> None:
    job.attach()
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(tell, b"!")
        time.sleep(20)
        os._exit(0)
    os.read(ready, 1)
    os.kill(child, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM


def test_other_ranks_than_0_are_not_heard_and_leave_no_checkpoint(
    inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    job.progress(1, 2)
    with job.checkpoint(1) as directory:
        (directory / "w").write_text("mine")
    assert (events(inside), list(job.checkpoint_dir().iterdir())) == ([], [])


def test_the_first_rank_of_another_node_is_heard_only_where_it_speaks_of_its_end(
    inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("RANK", "4"), ("LOCAL_RANK", "0"), ("EMEP_NODE_RANK", "1")):
        monkeypatch.setenv(name, value)
    job.progress(1, 2)
    job.artifact("net", "net")
    with job.checkpoint(1) as directory:
        (directory / "w").write_text("mine")
    job.error("out_of_memory", "batch of 64")
    job.done()
    assert [event["type"] for event in events(inside)] == ["error", "done"]


def test_leaving_checkpointed_is_an_event_too_for_a_launcher_makes_its_own_code_of_85(inside: Path) -> None:
    with pytest.raises(SystemExit):
        job.exit_checkpointed()
    assert events(inside) == [{"type": "yield"}]


def test_leaving_checkpointed_is_85_or_what_the_job_says(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match="85"):
        job.exit_checkpointed()
    monkeypatch.setenv("EMEP_CHECKPOINT_EXIT_CODE", "99")
    with pytest.raises(SystemExit, match="99"):
        job.exit_checkpointed()


def test_a_signal_that_comes_while_it_leaves_changes_nothing(inside: Path) -> None:
    with pytest.raises(SystemExit):
        job.exit_checkpointed()
    os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN


def test_outside_emep_every_call_does_nothing_and_one_file_is_enough(tmp_path: Path) -> None:
    (tmp_path / "emep_job.py").write_bytes(SOURCE.read_bytes())
    code = (
        "import signal, emep_job as job\n"
        "job.attach(); job.progress(1, 2, loss=3); job.metric('a', 1, 1); job.artifact('x', 'y'); job.error('c', 'm')\n"
        "with job.checkpoint(1) as d: (d / 'w').write_text('x')\n"
        "job.saved(1); job.done()\n"
        "print(job.resuming(), job.should_stop(), signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)\n"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("EMEP_")}
    said = subprocess.run(
        [sys.executable, "-B", "-c", code], cwd=tmp_path, env=environment, capture_output=True, check=True, text=True
    )
    assert said.stdout == "False False True\n"
    assert [p.name for p in tmp_path.iterdir()] == ["emep_job.py"]


def test_it_imports_nothing_but_the_standard_library() -> None:
    code = (
        f"import runpy, sys; before = set(sys.modules); runpy.run_path({str(SOURCE)!r}); "
        "print({m.split('.')[0] for m in set(sys.modules) - before} - sys.stdlib_module_names)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert said.stdout == "set()\n"
