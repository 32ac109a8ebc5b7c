"""How an agent is configured, and what it says when that is wrong."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest

from tests.workers.agent.nvml import FakeGpu, FakeNvml
from tests.workers.agent.server import TOKEN, NodeServer
from workers.agent.check import check
from workers.agent.command import main, open_devices
from workers.agent.devices_nvml import NvmlDevices
from workers.agent.settings import BadSettings, Settings, load, parser

FLAGS = ["--state", "/s", "--server", "http://h", "--node", "n1", "--token-file", "/t", "--gpus", "nvml"]


def loaded(*flags: str, env: dict[str, str] | None = None, base: list[str] = FLAGS) -> Settings:
    return load(parser().parse_args([*base, *flags]), env or {})


def refused(*flags: str, env: dict[str, str] | None = None, base: list[str] = FLAGS) -> str:
    with pytest.raises(BadSettings) as caught:
        loaded(*flags, env=env, base=base)
    return str(caught.value)


def test_flags_alone_are_enough() -> None:
    settings = loaded("--rack", "r1", "--bandwidth", "100", "--label", "zone=a", "--on-term", "drain")
    assert (settings.rack, settings.bandwidth, settings.labels, settings.on_term) == (
        "r1",
        100.0,
        {"zone": "a"},
        "drain",
    )


def test_the_environment_alone_is_enough() -> None:
    env = {
        "EMEP_AGENT_STATE": "/s", "EMEP_SERVER": "http://h", "EMEP_NODE": "n2", "EMEP_NODE_TOKEN_FILE": "/t",
        "EMEP_GPUS": "nvml", "EMEP_BELL": "broker", "EMEP_BROKER_URL": "redis://b",
    }  # fmt: skip
    settings = loaded(env=env, base=[])
    assert (settings.node, settings.bell, settings.broker) == ("n2", "broker", "redis://b")


def test_a_flag_beats_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    config = tmp_path / "agent.toml"
    config.write_text('rack = "file"\nbell = "none"\naddress = "file"\n[labels]\nzone = "a"\n')
    env = {"EMEP_RACK": "environment", "EMEP_BELL": "none"}
    settings = loaded("--config", str(config), "--bell", "poll", env=env)
    assert (settings.bell, settings.rack, settings.address, settings.labels) == (
        "poll", "environment", "file", {"zone": "a"},
    )  # fmt: skip


def test_labels_of_a_file_are_what_is_written_there(tmp_path: Path) -> None:
    config = tmp_path / "agent.toml"
    config.write_text('[labels]\nssd = true\nold = false\nslots = 4\nzone = "True"\n')
    labels = loaded("--config", str(config), "--label", "ssd=yes").labels
    assert labels == {"ssd": "yes", "old": "false", "slots": "4", "zone": "True"}


def test_for_how_long_refusals_pause_the_fence_is_what_the_server_says_unless_it_is_set() -> None:
    assert loaded().outage_grace_s == math.inf
    assert loaded(env={"EMEP_OUTAGE_GRACE_S": "0"}).outage_grace_s == 0.0


@pytest.mark.parametrize(
    ("value", "said"),
    [("-1", "seconds, 0 (a refusal counts as silence) or more, not -1.0"),
     ("half an hour", "a number, not 'half an hour'"),
     ("nan", "seconds, 0 (a refusal counts as silence) or more, not nan")],
)  # fmt: skip
def test_an_outage_grace_that_is_no_time_is_refused_by_name(value: str, said: str) -> None:
    assert refused(env={"EMEP_OUTAGE_GRACE_S": value}) == f"outage_grace_s: {said}"


def test_everything_missing_is_named_at_once() -> None:
    assert [line.split(":")[0] for line in refused(base=[]).splitlines()] == [
        "state", "server", "node", "token_file", "gpus",
    ]  # fmt: skip


def test_real_and_simulated_gpus_on_one_node_are_refused() -> None:
    assert "either real or simulated" in refused("--gpus", "simulated:x.yaml")
    env = {"EMEP_GPUS": "nvml,simulated:x.yaml"}
    assert "either real or simulated" in refused(env=env, base=FLAGS[:-2])


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["--bell", "gong"], "bell: one of broker, poll, none, not 'gong'"),
        (["--bell", "broker"], "broker: bell = broker needs the broker's URL"),
        (["--keeper", "none"], "keeper: one of start, outside"),
        (["--on-term", "explode"], "on_term: one of leave, drain"),
        (["--bandwidth", "fast"], "bandwidth: a number, not 'fast'"),
        (["--cgroup", "mine"], "cgroup: auto, off, or the full path of a delegated cgroup directory, not 'mine'"),
        (["--label", "zone"], "label 'zone': write KEY=VALUE"),
        (["--server", "head:8000"], "server: an address like http://head:8000"),
        (["--node", "../x"], "node: letters, digits"),
    ],
)
def test_a_wrong_setting_is_named_with_what_it_should_be(flags: list[str], names: str) -> None:
    assert names in refused(*flags)


@pytest.mark.parametrize(
    ("limit", "names"),
    [
        ("-1", "job_memory_bytes: 0 (no limit) or at least 67108864 (64 MiB), not -1"),
        ("67108863", "job_memory_bytes: 0 (no limit) or at least 67108864 (64 MiB), not 67108863"),
        ("64GiB", "job_memory_bytes: a number, not '64GiB'"),
    ],
)
def test_a_memory_limit_with_which_nothing_could_start_is_refused(limit: str, names: str) -> None:
    assert names in refused(env={"EMEP_JOB_MEMORY_BYTES": limit})


def test_a_number_without_end_in_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text("job_memory_bytes = inf\n")
    assert "job_memory_bytes: a number, not inf" in refused("--config", str(tmp_path / "agent.toml"))


def test_a_memory_limit_without_cgroups_is_refused() -> None:
    env = {"EMEP_JOB_MEMORY_BYTES": str(2**30), "EMEP_CGROUP": "off"}
    assert refused(env=env) == "job_memory_bytes: it needs cgroup = auto or a directory, not off"


def test_cgroups_and_a_memory_limit_are_read_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text('cgroup = "/sys/fs/cgroup/emep"\njob_memory_bytes = 67108864\n')
    settings = loaded("--config", str(tmp_path / "agent.toml"))
    assert (settings.cgroup, settings.job_memory_bytes) == ("/sys/fs/cgroup/emep", 64 * 2**20)


def test_an_unknown_name_in_the_file_is_an_error(tmp_path: Path) -> None:
    config = tmp_path / "agent.toml"
    config.write_text('rak = "r1"\n')
    assert "rak: unknown setting" in refused("--config", str(config))


def test_wrong_gpus_are_named_with_what_they_should_be() -> None:
    assert "nvml or simulated:FILE.yaml" in refused("--gpus", "cuda", base=FLAGS[:-2])


def test_the_commands_errors_are_lines_and_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--state", "/s"]) == 2
    assert "token_file: required" in capsys.readouterr().err


@pytest.mark.parametrize("content", [None, "", "two\nlines"])
def test_a_useless_token_file_is_named(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "token").write_text(content)
    with pytest.raises(BadSettings, match="token_file"):
        loaded(base=[*FLAGS[:6], "--token-file", str(tmp_path / "token"), "--gpus", "nvml"]).token()


def checked(
    tmp_path: Path, url: str, token: str = TOKEN, gpus: str = "gpus: [{uuid: S0, memory: 80GiB}]", address: str = ""
) -> str:
    (tmp_path / "token").write_text(token)
    (tmp_path / "gpus.yaml").write_text(gpus)
    settings = Settings(
        tmp_path / "state", url, "n1", tmp_path / "token", f"simulated:{tmp_path}/gpus.yaml",
        disk_low_bytes=0, address=address,
    )  # fmt: skip
    out = io.StringIO()
    status = check(settings, open_devices, out)
    return f"{status}\n{out.getvalue()}"


def test_check_says_what_is_there(tmp_path: Path) -> None:
    with NodeServer() as server:
        said = checked(tmp_path, server.url)
    assert said.startswith("0\n")
    assert "gpu 0 S0 Simulated GPU 81920 MiB" in said
    assert "knows this node's token" in said


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("192.0.2.7", "ok  address 192.0.2.7: what the other nodes of a job are told (192.0.2.7)"),
        ("127.0.0.2", "!   address 127.0.0.2: what the other nodes of a job are told, but 127.0.0.2 is every"),
        ("::1", "!   address ::1: what"),
        ("no..where", "!   address no..where: what the other nodes of a job are told, but it leads nowhere"),
    ],
)
def test_check_says_what_other_nodes_are_told_and_whether_they_could_meet_there(
    tmp_path: Path, address: str, said: str
) -> None:
    with NodeServer() as server:
        written = checked(tmp_path, server.url, address=address)
    assert said in written
    assert written.startswith("0\n")


def test_check_says_that_the_server_does_not_know_the_token(tmp_path: Path) -> None:
    with NodeServer() as server:
        said = checked(tmp_path, server.url, token="wrong")
    assert said.startswith("1\n")
    assert "BAD server" in said
    assert "401" in said


def test_check_says_that_the_gpus_file_is_wrong(tmp_path: Path) -> None:
    with NodeServer() as server:
        assert "BAD gpus: gpus.0.memory" in checked(tmp_path, server.url, gpus="gpus: [{uuid: a}]")


def test_check_names_a_board_in_mig_mode_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    settings = Settings(tmp_path / "state", "http://127.0.0.1:9", "n1", tmp_path / "token", "nvml", disk_low_bytes=0)
    out = io.StringIO()
    devices = NvmlDevices(nvml=FakeNvml(FakeGpu("a"), FakeGpu("sliced", mig=1)))
    assert check(settings, lambda _settings: (devices, {}), out) == 1
    assert (
        "BAD gpu 1 sliced is left out: MIG mode is on, and slices are not given to jobs: "
        "turn it off (nvidia-smi -i 1 -mig 0), then start again\n"
    ) in out.getvalue()
