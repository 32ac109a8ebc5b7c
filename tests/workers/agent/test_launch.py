"""What a job is started with."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.workers.agent.server import launch_of
from workers.agent import launch as launching
from workers.agent.spawn import ExecSpec
from workers.agent.statedir import read_json
from workers.protocol import Meeting

ALONE = Meeting(address="127.0.0.1", port=29500)


def built(
    tmp_path: Path, environment: dict[str, str] | None = None, meeting: Meeting = ALONE,
    interface: str | None = None, **launch: Any,
) -> ExecSpec:  # fmt: skip
    document: Any = launch_of(**launch)
    return launching.build(
        document, tmp_path, environment=environment or {}, wall_now=1000.0, meeting=meeting, threads=4,
        interface=interface,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("nodes", "agents", "owns", "right"),
    [(2, {}, {}, "eth0"), (1, {}, {}, None), (2, {"GLOO_SOCKET_IFNAME": "ib0"}, {}, "ib0"),
     (2, {"GLOO_SOCKET_IFNAME": "ib0"}, {"GLOO_SOCKET_IFNAME": "ib1"}, "ib1")],
)  # fmt: skip
def test_ranks_on_several_nodes_talk_over_the_interface_of_the_nodes_address_unless_told(
    nodes: int, agents: dict[str, str], owns: dict[str, str], right: str | None
) -> None:
    spec = built(Path("/a"), agents, interface="eth0", node_count=nodes, env=owns)
    assert spec.env.get("GLOO_SOCKET_IFNAME") == right


def test_a_built_in_kind_runs_as_the_kinds_module_of_this_program() -> None:
    spec = built(Path("/a"), kind="merge", argv=None)
    assert spec.argv == [sys.executable, "-m", "workers.kinds"]
    assert (Path(spec.env["PYTHONPATH"]) / "workers" / "protocol.py").exists()


def test_a_command_is_run_as_given_without_a_shell() -> None:
    assert built(Path("/a"), argv=["prog", "$HOME; rm"]).argv == ["prog", "$HOME; rm"]


def test_gpus_are_named_by_uuid_and_none_means_none() -> None:
    assert built(Path("/a"), gpus=["GPU-b", "GPU-a"]).env["CUDA_VISIBLE_DEVICES"] == "GPU-b,GPU-a"
    assert built(Path("/a"), gpus=[]).env["CUDA_VISIBLE_DEVICES"] == ""


def test_only_allowed_names_are_inherited() -> None:
    agents = {
        "PATH": "/bin", "LC_ALL": "C", "EMEP_NODE_TOKEN_FILE": "x", "AWS_SECRET_ACCESS_KEY": "x", "SLURM_JOB_ID": "1",
        "TORCHELASTIC_RUN_ID": "1", "LD_PRELOAD": "x",
    }  # fmt: skip
    env = built(Path("/a"), agents).env
    assert {name for name in agents if name in env} == {"PATH", "LC_ALL"}


@pytest.mark.parametrize("name", ["SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "EMEP_EPOCH", "CUDA_VISIBLE_DEVICES", "RANK"])
def test_a_job_cannot_set_what_only_the_scheduler_may_say(name: str) -> None:
    assert built(Path("/a"), env={name: "mine", "OWN": "kept"}).env.get(name) != "mine"


def test_a_jobs_own_variables_are_kept() -> None:
    assert built(Path("/a"), env={"OWN": "kept"}).env["OWN"] == "kept"


def test_the_contracts_variables_are_all_there() -> None:
    env = built(Path("/state/attempts/a1-1"), gpus=["G"], number=3, epoch=7, remaining_s=60.0, grace_s=9.0).env
    work = "/state/attempts/a1-1/work"
    assert {name: value for name, value in env.items() if name.startswith("EMEP_")} == {
        "EMEP_JOB_ID": "job-a1", "EMEP_ATTEMPT": "3", "EMEP_EPOCH": "7", "EMEP_INPUT_DIR": f"{work}/input",
        "EMEP_OUTPUT_DIR": f"{work}/output", "EMEP_CHECKPOINT_DIR": f"{work}/checkpoint",
        "EMEP_SCRATCH_DIR": f"{work}/scratch", "EMEP_RESUME": "0", "EMEP_GRACE_SECONDS": "9",
        "EMEP_EVENTS": "/state/attempts/a1-1/events.jsonl", "EMEP_PREEMPT_FILE": "/state/attempts/a1-1/preempt",
        "EMEP_JOB_FILE": "/state/attempts/a1-1/job.json", "EMEP_CHECKPOINT_EXIT_CODE": "85",
        "EMEP_PREEMPT_SIGNAL": "SIGTERM",
        "EMEP_DEADLINE": "1060.000", "EMEP_GPU_COUNT": "1", "EMEP_NODE_COUNT": "1", "EMEP_NODE_RANK": "0",
    }  # fmt: skip


def test_ranks_of_a_single_process_job_are_set() -> None:
    env = built(Path("/a")).env
    assert [env[n] for n in ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")] == [
        "1", "0", "0", "127.0.0.1", "29500",
    ]  # fmt: skip


def test_on_several_nodes_each_has_one_rank_and_all_meet_at_the_first(tmp_path: Path) -> None:
    env = built(Path("/a"), meeting=Meeting(address="n7", port=41000), node_rank=2, node_count=3).env
    names = ("WORLD_SIZE", "RANK", "NODE_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    assert [env[n] for n in names] == ["3", "2", "2", "0", "1", "n7", "41000"]
    assert (env["EMEP_NODE_COUNT"], env["EMEP_NODE_RANK"]) == ("3", "2")


def test_torchrun_gets_5_s_less_than_the_grace() -> None:
    assert built(Path("/a"), grace_s=120.0).env["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] == "115"


def test_an_unknown_user_is_an_error_before_anything_runs() -> None:
    document: Any = launch_of()
    with pytest.raises(KeyError, match="nobody-here"):
        launching.build(
            document, Path("/a"), environment={}, wall_now=0.0, meeting=ALONE, threads=1, run_as="nobody-here"
        )  # fmt: skip


def test_the_nodes_limit_on_disk_is_told_to_the_job(tmp_path: Path) -> None:
    document: Any = launch_of()
    spec = launching.build(
        document, tmp_path, environment={}, wall_now=0.0, meeting=ALONE, threads=1, disk_bytes=2**30
    )  # fmt: skip
    assert spec.env["EMEP_DISK_BYTES"] == str(2**30)


def test_the_nodes_limit_on_memory_reaches_the_keeper(tmp_path: Path) -> None:
    document: Any = launch_of()
    spec = launching.build(
        document, tmp_path, environment={}, wall_now=0.0, meeting=ALONE, threads=1, memory_bytes=2**30
    )  # fmt: skip
    launching.lay_out(tmp_path)
    launching.write(tmp_path, document, spec)
    assert (read_json(tmp_path / "exec.json") or {})["memory_bytes"] == 2**30


def test_the_job_document_holds_what_the_job_needs_and_no_secret(tmp_path: Path) -> None:
    document: Any = launch_of(params={"t": 0.5}, gpus=["G"])
    launching.lay_out(tmp_path)
    launching.write(tmp_path, document, built(tmp_path))
    assert json.loads((tmp_path / "job.json").read_text()) == {
        "kind": "command", "params": {"t": 0.5}, "inputs": [], "gpus": ["G"], "remaining_s": 60.0, "grace_s": 2.0,
    }  # fmt: skip
    assert (read_json(tmp_path / "exec.json") or {})["argv"] == ["true"]
