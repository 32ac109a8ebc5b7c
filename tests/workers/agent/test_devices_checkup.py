"""What a heartbeat says beside the looks: Xids until they are acknowledged, tests until their result is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.workers.agent.test_devices import SCENE, Clock
from tests.workers.agent.waiting import until
from workers.agent.devices import DevicesError, Trial, trouble
from workers.agent.devices_canary import Canaries
from workers.agent.devices_checkup import Checkup
from workers.agent.devices_simulated import SimulatedDevices, parse_scene
from workers.canary import main

UUIDS = ["S0", "S1"]


def checkup(faults: str = "[]", folder: Path = Path(), deadline_s: float = 20.0) -> Checkup:
    devices = SimulatedDevices(parse_scene(f"{SCENE}faults: {faults}", folder), clock=Clock())
    return Checkup(devices, UUIDS, canaries=Canaries(devices, deadline_s=deadline_s))


def told(check: Checkup, uuid: str = "S0") -> dict[str, object]:
    """The sample of the GPU in the next heartbeat, which is not answered."""
    return dict(next(s for s in check.collect(1.0) if s["uuid"] == uuid))


def result_of(check: Checkup) -> object:
    """The result of the test of S0 once it has ended."""
    return until(lambda: told(check).get("canary"), "a result", 30.0) or told(check)["canary"]


# ---------------------------------------------------------------- Xids


def test_an_xid_is_told_until_a_heartbeat_with_it_was_answered() -> None:
    check = checkup("[{gpu: S0, fault: xid}]")
    assert [told(check)["xids"] for _ in range(3)] == [[79]] * 3
    check.heard(check.collect(1.0), [])
    assert "xids" not in told(check)


def test_an_xid_that_comes_while_another_is_on_its_way_is_told_after_it(tmp_path: Path) -> None:
    check = checkup("[{gpu: S0, fault: xid}, {gpu: S0, fault: xid, xid: 48, when: now}]", tmp_path)
    sent = check.collect(1.0)
    (tmp_path / "now").touch()
    check.heard(sent, [])
    sample = told(check)
    assert (sample["xids"], sample["xids_before"]) == ([48], 1)


def test_a_gpu_that_hangs_still_tells_its_xid() -> None:
    check = checkup("[{gpu: S0, fault: hang}, {gpu: S0, fault: xid}]")
    sample = dict(check.collect(0.1)[0])
    assert (sample["fault"], sample["xids"]) == ("hung", [79])
    check.devices.close()


# ---------------------------------------------------------------- the test


def test_a_good_gpu_passes_and_the_result_is_told_until_it_was_heard() -> None:
    check = checkup()
    check.heard(None, ["S0"])
    assert result_of(check) == {"passed": True, "detail": "simulated: nothing was computed"}
    assert "canary" in told(check)
    check.heard(check.collect(1.0), [])
    assert "canary" not in told(check)


@pytest.mark.parametrize(
    ("fault", "detail"),
    [
        ("canary", "simulated fault: 3 products of 512 x 512 are wrong"),
        ("leak", "before the test simulated fault: 4096 MiB are still in use"),
    ],
)
def test_a_bad_gpu_fails_and_says_how(fault: str, detail: str) -> None:
    check = checkup(f"[{{gpu: S0, fault: {fault}}}]")
    check.heard(None, ["S0"])
    assert result_of(check) == {"passed": False, "detail": detail}


def test_a_test_that_does_not_end_is_killed_and_failed() -> None:
    check = checkup("[{gpu: S0, fault: hang}]", deadline_s=0.5)
    check.canaries.want(["S0"], frozenset())
    until(lambda: check.canaries.result("S0"), "a result", 30.0)
    assert check.canaries.result("S0") == {"passed": False, "detail": "no answer within 0.5 s"}
    check.devices.close()


def test_a_test_that_is_asked_for_again_while_it_runs_runs_once() -> None:
    check = checkup("[{gpu: S0, fault: hang}]", deadline_s=0.5)
    check.canaries.want(["S0"], frozenset())
    first = check.canaries.runs["S0"]
    check.canaries.want(["S0"], frozenset())
    assert check.canaries.runs["S0"] is first
    check.devices.close()


def test_no_test_is_run_on_a_gpu_with_a_job() -> None:
    check = checkup()
    check.note_busy(frozenset({"S0"}))
    check.heard(None, UUIDS)
    assert list(check.canaries.runs) == ["S1"]


def test_a_driver_that_hangs_before_the_test_has_failed_it() -> None:
    clock = Clock()
    devices = SimulatedDevices(parse_scene(SCENE), clock=clock)
    tests = Canaries(devices, deadline_s=60.0, clock=clock)
    devices.occupied = lambda _uuid: devices.closing.wait() and ""  # type: ignore[method-assign]
    tests.want(["S0"], frozenset())
    assert tests.result("S0") is None
    clock.now += 71.0
    assert tests.result("S0") == {"passed": False, "detail": "the driver gave no answer within 60 s"}
    devices.close()


@pytest.mark.parametrize(
    ("command", "detail"),
    [
        (("/nonexistent",), "it could not be tried: "),
        ((sys.executable, "-c", "import sys; sys.exit(3)"), "it ended with 3 and said nothing"),
        ((sys.executable, "-c", "import os; os.abort()"), "it ended with -6 and said nothing"),
    ],
)
def test_a_test_that_dies_has_failed(command: tuple[str, ...], detail: str) -> None:
    check = checkup()
    check.devices.trial = lambda _uuid: Trial(command, {})  # type: ignore[method-assign]
    check.heard(None, ["S0"])
    said = result_of(check)
    assert isinstance(said, dict)
    assert (said["passed"], said["detail"].startswith(detail)) == (False, True)


def test_devices_that_are_no_more_have_failed_their_test() -> None:
    check = checkup()

    def gone(_uuid: str) -> str:
        raise DevicesError("NVML does not show this GPU")

    check.devices.occupied = gone  # type: ignore[method-assign]
    check.heard(None, ["S0"])
    assert result_of(check) == {"passed": False, "detail": "it could not be tried: NVML does not show this GPU"}


def test_what_the_test_computes_is_right_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--cpu", "--limit", "120"]) == 0
    assert capsys.readouterr().out == "64 MiB kept what was written, 512 x 512 products are right\n"


# ---------------------------------------------------------------- in words


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, ""),
        ({"error": "Unknown"}, "Unknown"),
        ({"remap_failure": 1}, "worn out"),
        ({"recovery": 2}, "recovery action 2"),
        ({"recovery": 3}, ""),
        ({"temperature_c": 95.0, "temperature_limit_c": 95.0}, "95 °C"),
    ],
)
def test_an_operator_reads_what_is_wrong_by_one_look(more: dict[str, object], words: str) -> None:
    said = trouble({"uuid": "a", **more})  # type: ignore[typeddict-item]
    assert words in said if words else not said
