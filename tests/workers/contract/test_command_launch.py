"""How a command becomes a process: its words, its place, its environment."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.workers.agent.server import launch_of
from workers.agent import launch as launching
from workers.agent import tmp_link
from workers.agent.spawn import ExecSpec
from workers.protocol import Meeting

AT = Path("/state/a1-1")
ALONE = Meeting(address="127.0.0.1", port=29500)


def built(params: dict[str, Any], meeting: Meeting = ALONE, **launch: Any) -> ExecSpec:
    document: Any = launch_of(argv=None, params=params, **launch)
    return launching.build(document, AT, environment={}, wall_now=0.0, meeting=meeting, threads=8)


def test_the_words_are_executed_as_they_are() -> None:
    assert built({"argv": ["prog", "$HOME; rm"]}).argv == ["prog", "$HOME; rm"]


def test_a_shell_line_is_run_by_exec() -> None:
    assert built({"shell": "prog $HOME"}).argv == ["sh", "-c", "exec prog $HOME"]


def test_torchrun_starts_one_process_a_gpu_and_never_restarts_by_itself() -> None:
    spec = built({"argv": ["train.py", "--lr", "1"], "torchrun": True}, gpus=["A", "B"])
    assert spec.argv == [
        sys.executable, "-m", "torch.distributed.run", "--nnodes", "1", "--nproc-per-node", "2", "--node-rank", "0",
        "--rdzv-backend", "static", "--master-addr", "127.0.0.1", "--master-port", "29500", "--max-restarts", "0",
        "train.py", "--lr", "1",
    ]  # fmt: skip


def test_torchrun_is_told_its_nodes_rank_and_where_all_of_them_meet() -> None:
    meeting = Meeting(address="n7", port=41000)
    spec = built({"argv": ["x.py"], "torchrun": True}, meeting, gpus=["A"], node_rank=1, node_count=2)
    words = dict(zip(spec.argv[3:-1:2], spec.argv[4:-1:2], strict=True))
    names = ("--nnodes", "--node-rank", "--nproc-per-node", "--master-addr", "--master-port")
    assert [words[n] for n in names] == ["2", "1", "1", "n7", "41000"]


def test_torchrun_runs_under_the_python_that_the_command_names() -> None:
    spec = built({"argv": ["/env/bin/python3.12", "train.py"], "torchrun": True, "nproc": 4})
    assert (spec.argv[0], spec.argv[6], spec.argv[-1]) == ("/env/bin/python3.12", "4", "train.py")


def test_the_cores_are_shared_by_the_processes() -> None:
    assert built({"argv": ["t.py"], "torchrun": True, "nproc": 4}).env["OMP_NUM_THREADS"] == "2"


def test_its_own_variables_are_kept_and_reserved_ones_are_not() -> None:
    env = built({"argv": ["p"], "env": {"LR": "0.1", "EMEP_EPOCH": "9", "RANK": "7"}}).env
    assert (env["LR"], env["EMEP_EPOCH"], env["RANK"]) == ("0.1", "1", "0")


def test_the_client_can_be_imported_behind_the_jobs_own_places(tmp_path: Path) -> None:
    launching.lay_out(tmp_path)
    assert (tmp_path / "client" / "emep_job.py").exists()
    assert built({"argv": ["p"], "env": {"PYTHONPATH": "/mine"}}).env["PYTHONPATH"] == f"/mine:{AT}/client"


def test_tmpdir_is_its_scratch_directory_by_a_name_short_enough_for_a_socket(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 90)
    launching.lay_out(deep)
    tmp_link.make(deep / "work" / "scratch")
    document: Any = launch_of()
    spec = launching.build(document, deep, environment={}, wall_now=0.0, meeting=ALONE, threads=1)
    assert len(spec.env["TMPDIR"] + "/pymp-abcdefgh/listener-abcdefgh") <= 107
    assert Path(spec.env["TMPDIR"]).samefile(spec.env["EMEP_SCRATCH_DIR"])
    tmp_link.remove(deep / "work" / "scratch")
    assert not Path(spec.env["TMPDIR"]).is_symlink()


def test_a_link_of_somebody_else_is_neither_used_nor_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tmp_link, "BASE", tmp_path)
    mine, other = tmp_path / "mine", tmp_path / "other"
    tmp_link.make(mine)
    (link,) = tmp_path.glob("emep-*")
    link.unlink()
    link.symlink_to(other)
    tmp_link.make(mine)
    tmp_link.remove(mine)
    assert (tmp_link.short(mine), link.readlink()) == (mine, other)


def test_it_starts_among_its_files_or_where_it_asks_or_in_its_private_directory() -> None:
    assert built({"argv": ["p"], "files": "code"}).cwd == str(AT / "work" / "input" / "files")
    assert built({"argv": ["p"], "files": "code", "cwd": "scratch"}).cwd == str(AT / "work" / "scratch")
    assert built({"argv": ["p"], "cwd": "/home/alice"}).cwd == "/home/alice"
    assert built({"argv": ["p"]}).cwd == f"{AT}/work"


def test_its_signal_and_its_code_are_told_to_it() -> None:
    spec = built({"argv": ["p"], "preempt_signal": "SIGUSR1", "checkpoint_exit_code": 99})
    told = (spec.stop_signal, spec.env["EMEP_PREEMPT_SIGNAL"], spec.env["EMEP_CHECKPOINT_EXIT_CODE"])
    assert told == ("SIGUSR1", "SIGUSR1", "99")
