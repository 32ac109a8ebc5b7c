"""What a job leaves on its GPUs, looked at through the driver's double and through a simulated node."""

from __future__ import annotations

import threading
from pathlib import Path

import pynvml
import pytest

from tests.workers.agent.nvml import FakeGpu, FakeNvml
from tests.workers.agent.server import launch_of
from tests.workers.agent.test_whole_node import CALM, GPUS, STOPPABLE, finished, node, running, script
from tests.workers.agent.waiting import until
from workers.agent.devices import Use
from workers.agent.devices_nvml import NvmlDevices
from workers.agent.devices_release import SLACK_MIB, Departures, left_on
from workers.agent.messages import GpusLooked, LookAtGpus
from workers.agent.statedir import Ref, StateDir

MIB = 2**20
REF = Ref("a1", 1)
LEAK = "faults: [{gpu: SIM-0, fault: leak, when: stuck}]\n"


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (Use(400), Use(400), ""),
        (Use(400), Use(400 + SLACK_MIB), ""),
        (Use(400), Use(401 + SLACK_MIB), "257 MiB are still held (657 in use, 400 before it)"),
        (Use(400, (7,)), Use(400, (7,)), ""),
        (Use(400, (7,)), Use(400, (7, 9)), "processes are on it (9)"),
        (Use(0), Use(4096, (9,)), "processes are on it (9) and 4096 MiB are still held (4096 in use, 0 before it)"),
        (Use(None), Use(4096), ""),
        (Use(400), Use(None), ""),
        (None, Use(4096), ""),
        (None, Use(4096, (9,)), "processes are on it (9)"),
    ],
)
def test_what_is_left_is_what_was_not_there_before(before: Use | None, now: Use, words: str) -> None:
    assert left_on(before, now) == words


def departures(tmp_path: Path, *gpus: FakeGpu, deadline_s: float = 5.0) -> Departures:
    state = StateDir(tmp_path)
    state.of(REF).mkdir()
    return Departures(NvmlDevices(nvml=FakeNvml(*gpus)), state, deadline_s=deadline_s)


def seen(tmp_path: Path, gpu: FakeGpu, **after: object) -> GpusLooked:
    """A job was on ``gpu``, which then is as ``after`` says."""
    watch = departures(tmp_path, gpu)
    watch.before(watch.state.of(REF), [gpu.uuid])
    for name, value in after.items():
        setattr(gpu, name, value)
    return watch.look(LookAtGpus(REF, (gpu.uuid,)))


def test_a_gpu_as_it_was_is_free(tmp_path: Path) -> None:
    assert seen(tmp_path, FakeGpu("a", used=900 * MIB, pids=(3,))) == GpusLooked(REF)


def test_memory_without_a_process_is_named_with_its_gpu(tmp_path: Path) -> None:
    assert seen(tmp_path, FakeGpu("a", used=900 * MIB), used=5000 * MIB) == GpusLooked(
        REF, "a: 4100 MiB are still held (5000 in use, 900 before it)"
    )


def test_a_process_on_it_is_named(tmp_path: Path) -> None:
    assert seen(tmp_path, FakeGpu("a"), pids=(4711,)).left == "a: processes are on it (4711)"


def test_a_board_that_can_not_tell_its_memory_is_not_waited_for(tmp_path: Path) -> None:
    fails = {"nvmlDeviceGetMemoryInfo": pynvml.NVML_ERROR_NOT_SUPPORTED}
    assert seen(tmp_path, FakeGpu("a", fails=fails), used=5000 * MIB) == GpusLooked(REF)


def test_a_gpu_that_fails_the_look_is_silent_and_not_full(tmp_path: Path) -> None:
    found = seen(tmp_path, FakeGpu("a"), fails={"*": pynvml.NVML_ERROR_GPU_IS_LOST})
    assert (found.left, found.silent) == ("", "a: GPU is lost")


def test_a_driver_that_hangs_holds_up_nobody_and_an_old_answer_does_not_count(tmp_path: Path) -> None:
    gpu = FakeGpu("a")
    watch = departures(tmp_path, gpu, deadline_s=0.05)
    gpu.hangs = threading.Event()
    watch.before(watch.state.of(REF), ["a"])
    question = watch.asked["a"]
    assert watch.look(LookAtGpus(REF, ("a",))).silent == "a: the driver gave no answer within 0.05 s"
    assert watch.asked["a"] is question
    gpu.hangs.set()
    assert question.done.wait(5.0)
    assert watch.look(LookAtGpus(REF, ("a",))).silent == ""
    assert watch.asked["a"] is not question


# ---------------------------------------------------------------- a simulated node, as real processes


def test_a_leak_after_a_job_is_told_with_its_end_and_the_next_job_is_judged_anew(tmp_path: Path) -> None:
    with node(tmp_path) as (server, one):
        (tmp_path / "gpus.yaml").write_text(GPUS + LEAK)
        server.grant(launch_of(argv=script(STOPPABLE), gpus=["SIM-0"]))
        one.start_agent()
        running(server, one)
        (tmp_path / "stuck").touch()
        server.want("a1", "stop", "preempt")
        report = finished(server)
        assert (report["outcome"], report["gpus_clean"]) == ("PREEMPTED", False)
        assert report["detail"] == (
            "not free after its job: SIM-0: 4096 MiB are still held (4096 in use, 0 before it)"
        )  # fmt: skip
        (tmp_path / "stuck").unlink()
        server.grant(launch_of("a2", argv=script("sys.exit(0)"), gpus=["SIM-0"]))
        assert "gpus_clean" not in finished(server, "a2")


def test_what_a_killed_agent_knew_of_a_gpu_is_known_to_the_next_one(tmp_path: Path) -> None:
    with node(tmp_path, CALM) as (server, one):
        (tmp_path / "gpus.yaml").write_text(GPUS + LEAK)
        server.grant(launch_of(argv=script(STOPPABLE), gpus=["SIM-0"]))
        agent = one.start_agent()
        running(server, one)
        agent.kill()
        agent.wait()
        (tmp_path / "stuck").touch()
        one.start_agent()
        until(lambda: len(server.registrations) == 2, "the second registration")
        server.want("a1", "stop", "preempt")
        assert finished(server)["detail"].endswith("SIM-0: 4096 MiB are still held (4096 in use, 0 before it)")
