"""GPUs: real ones through a double of NVML, and simulated ones."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pynvml
import pytest

from scheduling.core.units import parse_memory
from tests.workers.agent.nvml import FakeGpu, FakeNvml
from tests.workers.agent.waiting import until
from workers.agent.devices import DevicesError, Poller
from workers.agent.devices_nvml import NvmlDevices
from workers.agent.devices_simulated import SimulatedDevices, memory_mib, parse_scene

LOST = pynvml.NVML_ERROR_GPU_IS_LOST
UNSUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED


def real(*gpus: FakeGpu, **more: Any) -> NvmlDevices:
    return NvmlDevices(nvml=FakeNvml(*gpus), node="n1", **more)


# ---------------------------------------------------------------- NVML


def test_no_driver_is_one_clear_error() -> None:
    with pytest.raises(DevicesError, match=r"install the NVIDIA driver.*or give --gpus simulated"):
        NvmlDevices(nvml=FakeNvml(init_error=pynvml.NVML_ERROR_LIBRARY_NOT_FOUND))


def test_a_gpu_that_does_not_answer_at_the_start_is_left_out() -> None:
    dead = FakeGpu("dead", fails={"nvmlDeviceGetHandleByIndex": LOST})
    assert [gpu["uuid"] for gpu in real(dead, FakeGpu("a")).inventory()] == ["a"]


def test_a_gpu_is_described_by_its_uuid_model_and_installed_memory() -> None:
    assert real(FakeGpu("GPU-a")).inventory() == [
        {"uuid": "GPU-a", "index": 0, "model": "NVIDIA H200", "memory_mib": 81920, "nvlink_group_id": None}
    ]


@pytest.mark.parametrize("mode", [1, 2])
def test_a_board_in_mig_mode_or_one_unknown_is_not_for_jobs_and_is_named(mode: int) -> None:
    devices = real(FakeGpu("a"), FakeGpu("sliced", mig=mode), FakeGpu("b"))
    assert [(gpu["uuid"], gpu["index"]) for gpu in devices.inventory()] == [("a", 0), ("b", 2)]
    assert [line.partition(": MIG mode is on")[0] for line in devices.left_out()] == ["gpu 1 sliced is left out"]


def test_a_board_that_knows_no_mig_mode_is_for_jobs() -> None:
    assert len(real(FakeGpu("a", fails={"nvmlDeviceGetMigMode": UNSUPPORTED})).inventory()) == 1


def test_a_board_that_is_put_into_mig_mode_fails_its_checks_from_then_on() -> None:
    devices = real(FakeGpu("a"))
    devices.nvml.gpus[0].mig = 1
    sample = devices.sample("a")
    assert (sample["fault"], sample["error"].partition(":")[0]) == (
        "error",
        "MIG mode is on, and slices are not given to jobs",
    )


def test_nvlink_groups_are_the_connected_components_of_linked_pairs() -> None:
    chain = [FakeGpu("a", links=(1,)), FakeGpu("b", links=(2,)), FakeGpu("c"), FakeGpu("d", links=(4,)), FakeGpu("e")]
    groups = [gpu["nvlink_group_id"] for gpu in real(*chain, FakeGpu("alone")).inventory()]
    assert groups == ["n1-nvlink-0"] * 3 + ["n1-nvlink-1"] * 2 + [None]


def test_boards_without_p2p_status_have_no_group() -> None:
    gpus = [FakeGpu(name, links=(0, 1), fails={"nvmlDeviceGetP2PStatus": UNSUPPORTED}) for name in "ab"]
    assert [gpu["nvlink_group_id"] for gpu in real(*gpus).inventory()] == [None, None]


def test_the_operators_groups_override_what_was_found() -> None:
    assert real(FakeGpu("a"), groups={"a": "rack-3"}).inventory()[0]["nvlink_group_id"] == "rack-3"


def test_an_old_driver_without_memory_v2_still_tells_the_memory() -> None:
    gpu = FakeGpu("a", fails={"memory_v2": pynvml.NVML_ERROR_FUNCTION_NOT_FOUND})
    assert real(gpu).inventory()[0]["memory_mib"] == 81920


def test_a_healthy_sample_holds_every_metric_and_no_error() -> None:
    assert real(FakeGpu("a", ecc=2)).sample("a") == {
        "uuid": "a", "utilization": 37.0, "memory_used_mib": 3072, "memory_mib": 81920, "temperature_c": 51.0,
        "temperature_limit_c": 95.0, "power_w": 123.456, "ecc": 2, "remap_pending": 0, "remap_failure": 0,
        "recovery": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("call", "metric"),
    [
        ("nvmlDeviceGetUtilizationRates", "utilization"), ("nvmlDeviceGetMemoryInfo", "memory_used_mib"),
        ("nvmlDeviceGetTemperature", "temperature_c"), ("nvmlDeviceGetTemperatureThreshold", "temperature_limit_c"),
        ("nvmlDeviceGetPowerUsage", "power_w"), ("nvmlDeviceGetTotalEccErrors", "ecc"),
        ("nvmlDeviceGetRemappedRows", "remap_failure"), ("nvmlDeviceGetFieldValues", "recovery"),
    ],
)  # fmt: skip
def test_an_unsupported_metric_is_absent_and_never_an_error(call: str, metric: str) -> None:
    sample = real(FakeGpu("a", fails={call: UNSUPPORTED})).sample("a")
    assert metric not in sample
    assert "error" not in sample


def test_a_lost_gpu_is_an_error_and_the_others_answer() -> None:
    devices = real(FakeGpu("a"), FakeGpu("b"))
    devices.nvml.gpus[0].fails["*"] = LOST
    assert "lost" in devices.sample("a")["error"].lower()
    assert devices.sample("a")["fault"] == "lost"
    assert "error" not in devices.sample("b")


def test_another_error_of_the_driver_is_no_loss() -> None:
    assert real(FakeGpu("a", fails={"nvmlDeviceGetTemperature": pynvml.NVML_ERROR_UNKNOWN})).sample("a")["fault"] == (
        "error"
    )


def test_a_gpu_that_nvml_no_longer_shows_is_missing() -> None:
    assert real(FakeGpu("a")).sample("b")["fault"] == "missing"


@pytest.mark.parametrize(
    ("gpu", "metric"),
    [
        (FakeGpu("a", remap_failure=1), {"remap_failure": 1}),
        (FakeGpu("a", remap_pending=2), {"remap_pending": 1}),
        (FakeGpu("a", retired=63, fails={"nvmlDeviceGetRemappedRows": UNSUPPORTED}), {"retired_pages": 63}),
        (FakeGpu("a", recovery=4), {"recovery": 4}),
    ],
)
def test_worn_out_memory_and_the_drivers_advice_are_told_as_they_are(gpu: FakeGpu, metric: dict[str, int]) -> None:
    sample = real(gpu).sample("a")
    assert metric.items() <= dict(sample).items()
    assert "error" not in sample


def test_every_xid_is_told_once_with_its_gpu() -> None:
    devices = real(FakeGpu("a"), FakeGpu("b"))
    for number in (13, 79):
        devices.nvml.events.put((1, number))
    until(lambda: devices.nvml.events.empty() and devices.nvml.taken, "all events")
    assert devices.xids() == {"b": [13, 79]}
    assert devices.xids() == {}
    devices.close()


def test_an_xid_without_end_leaves_room_for_another() -> None:
    devices = real(FakeGpu("a"))
    for number in [13] * 500 + [79]:
        devices.nvml.events.put((0, number))
    until(lambda: devices.nvml.events.empty() and devices.nvml.taken, "all events")
    told = devices.xids()["a"]
    assert (len(told), told[-1]) == (65, 79)
    devices.close()


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        (FakeGpu("a"), ""),
        (FakeGpu("a", pids=(4, 7)), "processes are on it: 4, 7"),
        (FakeGpu("a", used=4 * 2**30), "4096 MiB are in use, and 3072 MiB when it was idle"),
    ],
)
def test_a_gpu_is_free_without_processes_and_with_the_memory_of_an_idle_one(gpu: FakeGpu, words: str) -> None:
    devices = real(gpu)
    used, gpu.used = gpu.used, 3 * 2**30
    devices.sample("a")
    gpu.used = used
    devices.note_busy(frozenset({"a"}))
    devices.sample("a")  # what a job has in use is not what an idle one has
    assert devices.occupied("a") == words


def test_a_test_sees_one_gpu_by_its_uuid() -> None:
    assert real(FakeGpu("GPU-a")).trial("GPU-a").environment["CUDA_VISIBLE_DEVICES"] == "GPU-a"


def test_a_driver_without_events_still_gives_samples() -> None:
    gpu = FakeGpu("a", fails={"nvmlDeviceRegisterEvents": UNSUPPORTED})
    assert "error" not in real(gpu).sample("a")


# ---------------------------------------------------------------- the poller


def test_a_hung_driver_is_an_error_in_time_and_the_others_answer() -> None:
    hang = threading.Event()
    devices = real(FakeGpu("a"), FakeGpu("b"))
    devices.nvml.gpus[0].hangs = hang
    samples = {s["uuid"]: s for s in Poller(devices, ["a", "b"]).collect(0.2)}
    assert samples["a"] == {"uuid": "a", "error": "the driver gave no answer within 0.2 s", "fault": "hung"}
    assert "error" not in samples["b"]
    hang.set()


def test_a_hung_look_is_not_repeated_until_it_has_returned() -> None:
    hang = threading.Event()
    devices = real(FakeGpu("a"))
    devices.nvml.gpus[0].hangs = hang
    poller = Poller(devices, ["a"])
    poller.collect(0.01)
    first = poller.looks["a"]
    poller.collect(0.01)
    assert poller.looks["a"] is first
    hang.set()
    assert "error" not in poller.collect(5.0)[0]


# ---------------------------------------------------------------- simulated

SCENE = """
seed: 3
node: {rack_id: r1}
gpus:
  - {uuid: S0, model: Sim, memory: 80GiB, nvlink_group_id: g}
  - {uuid: S1, model: Sim, memory: 24GB}
"""


class Clock:
    def __init__(self) -> None:
        self.now = 500.0

    def __call__(self) -> float:
        return self.now


def simulated(more: str = "") -> tuple[SimulatedDevices, Clock]:
    clock = Clock()
    return SimulatedDevices(parse_scene(SCENE + more), clock=clock), clock


def test_a_scene_says_what_the_node_has() -> None:
    assert simulated()[0].inventory() == [
        {"uuid": "S0", "index": 0, "model": "Sim", "memory_mib": 81920, "nvlink_group_id": "g"},
        {"uuid": "S1", "index": 1, "model": "Sim", "memory_mib": 22889, "nvlink_group_id": None},
    ]


def test_telemetry_rises_with_a_job_and_falls_after_it() -> None:
    devices, clock = simulated()
    names = ("utilization", "memory_used_mib", "temperature_c", "power_w")
    idle = devices.sample("S0")
    devices.note_busy(frozenset({"S0"}))
    clock.now += 60.0
    busy = devices.sample("S0")
    devices.note_busy(frozenset())
    clock.now += 120.0
    after = devices.sample("S0")
    for name in names:
        assert busy[name] > 1.5 * idle[name]  # type: ignore[literal-required]
        assert after[name] < 0.6 * busy[name]  # type: ignore[literal-required]


def test_telemetry_has_no_jump_when_the_load_changes() -> None:
    devices, _ = simulated()
    before = devices.sample("S0")
    devices.note_busy(frozenset({"S0"}))
    assert devices.sample("S0") == before


def test_equal_seeds_and_times_give_equal_samples_and_other_gpus_others() -> None:
    (one, clock), (two, again) = simulated(), simulated()
    clock.now = again.now = 777.0
    assert one.sample("S0") == two.sample("S0")
    assert one.sample("S0")["power_w"] != one.sample("S1")["power_w"]


def fault(kind: str) -> str:
    return f"faults: [{{at_s: 10, gpu: S0, fault: {kind}, for_s: 5}}]"


@pytest.mark.parametrize(("after", "on"), [(9.9, False), (10.0, True), (14.9, True), (15.0, False)])
def test_a_scripted_error_lasts_as_long_as_scripted(after: float, on: bool) -> None:
    devices, clock = simulated(fault("error"))
    clock.now += after
    assert ("error" in devices.sample("S0")) is on
    assert "error" not in devices.sample("S1")


def test_overheat_passes_the_boards_own_limit() -> None:
    devices, clock = simulated(fault("overheat"))
    clock.now += 12.0
    sample = devices.sample("S0")
    assert sample["temperature_c"] > sample["temperature_limit_c"]


def test_ecc_errors_count_up_while_the_fault_lasts_and_do_not_go_away() -> None:
    devices, clock = simulated(fault("ecc"))
    counts = []
    for _ in range(4):
        counts.append(devices.sample("S0")["ecc"])
        clock.now += 12.0
    assert counts == [0, 3, 6, 6]


def test_an_xid_is_told_once() -> None:
    devices, clock = simulated(fault("xid"))
    clock.now += 12.0
    assert [devices.xids(), devices.xids()] == [{"S0": [79]}, {}]


def test_a_missing_gpu_is_not_described_and_its_sample_says_so() -> None:
    devices, clock = simulated(fault("missing"))
    clock.now += 12.0
    assert [gpu["uuid"] for gpu in devices.inventory()] == ["S1"]
    assert devices.sample("S0")["fault"] == "missing"


def test_a_wrong_memory_size_is_reported_and_described() -> None:
    devices, _ = simulated("faults: [{gpu: S0, fault: memory, memory_mib: 40960}]")
    assert (devices.sample("S0")["memory_mib"], devices.inventory()[0]["memory_mib"]) == (40960, 40960)
    assert devices.sample("S1")["memory_mib"] == 22889


def test_a_row_that_cannot_be_replaced_is_reported() -> None:
    devices, clock = simulated(fault("remap"))
    clock.now += 12.0
    assert devices.sample("S0")["remap_failure"] == 1


def test_a_reboot_brings_the_gpus_back_with_other_indices_and_the_same_uuids() -> None:
    devices, clock = simulated("faults: [{fault: reboot, at_s: 10, order: [S1, S0]}]")
    before = [(gpu["uuid"], gpu["index"]) for gpu in devices.inventory()]
    clock.now += 10.0
    after = [(gpu["uuid"], gpu["index"]) for gpu in devices.inventory()]
    assert (before, after, devices.boots()) == ([("S0", 0), ("S1", 1)], [("S1", 0), ("S0", 1)], 1)


def test_a_fault_by_a_file_lasts_as_long_as_the_file(tmp_path: Path) -> None:
    scene = parse_scene(SCENE + "faults: [{gpu: S0, fault: overheat, when: hot}]", tmp_path)
    devices = SimulatedDevices(scene, clock=Clock())
    heat = [devices.sample("S0")["temperature_c"]]
    (tmp_path / "hot").touch()
    heat.append(devices.sample("S0")["temperature_c"])
    (tmp_path / "hot").unlink()
    heat.append(devices.sample("S0")["temperature_c"])
    assert [each > 95 for each in heat] == [False, True, False]


def test_an_xid_by_a_file_is_told_once_for_each_time_the_file_is_made(tmp_path: Path) -> None:
    scene = parse_scene(SCENE + "faults: [{gpu: S0, fault: xid, xid: 48, when: now}]", tmp_path)
    devices = SimulatedDevices(scene, clock=Clock())
    told = []
    for make in (True, False, True):
        (tmp_path / "now").touch() if make else (tmp_path / "now").unlink()
        told.append([devices.xids().get("S0", []) for _ in range(2)])
    assert told == [[[48], []], [[], []], [[48], []]]


def test_a_simulated_hang_is_an_error_of_the_poller() -> None:
    devices, clock = simulated(fault("hang"))
    clock.now += 12.0
    assert Poller(devices, ["S0"]).collect(0.05)[0]["fault"] == "hung"
    devices.close()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "gpus"), ("gpus: []", "gpus"), ("gpus: [{model: x}]", r"gpus.0.uuid"), ("{", "YAML"),
        ("gpus: [{uuid: a, memory: lots}]", r"gpus.0.memory.*80GiB.*lots"),
        ("gpus: [{uuid: a, memory: 1}, {uuid: a, memory: 1}]", "same uuid"),
        (SCENE + "faults: [{gpu: S9, fault: error}]", r"faults.0.gpu.*S0, S1"),
        (SCENE + "faults: [{gpu: S0, fault: meltdown}]", r"faults.0.fault.*hang.*meltdown"),
        (SCENE + "faults: [{gpu: S0, fault: error, at_s: soon}]", r"faults.0.*seconds"),
        (SCENE + "faults: [hot]", r"faults.0: give"),
        (SCENE + "faults: [{gpu: S0, fault: error, at: 3}]", r"faults.0.at: .*at_s"),
        (SCENE + "faults: [{fault: reboot, order: [S0]}]", r"faults.0.order: name each of S0, S1 once"),
    ],
)  # fmt: skip
def test_a_wrong_scene_names_the_field_and_what_it_should_be(text: str, names: str) -> None:
    with pytest.raises(DevicesError, match=names):
        parse_scene(text)


@pytest.mark.parametrize(("said", "mib"), [("80GiB", 81920), ("80GB", 76294), (80, 76294), ("512 MiB", 512)])
def test_memory_is_read_as_users_write_it(said: object, mib: int) -> None:
    assert memory_mib(said) == mib


@pytest.mark.parametrize("said", ["80GB", "80GiB", "0.1GB", "79.6 GB", "1.1TiB", "76294MiB", "81559 mb", 80, 24.5])
def test_a_simulated_gpu_serves_a_job_that_asks_for_its_memory_in_the_same_words(said: object) -> None:
    assert memory_mib(said) == parse_memory(said)
