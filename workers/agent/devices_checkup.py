"""What a heartbeat says of the GPUs: a look at each, the Xids nobody has acknowledged yet, and results of tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from workers.agent.devices import Devices, Poller
from workers.agent.devices_canary import Canaries
from workers.protocol import GpuSample

MAX_XIDS = 256


class Checkup:
    """One per agent. ``collect`` and ``heard`` are called in turn, from one thread at a time."""

    def __init__(self, devices: Devices, uuids: Sequence[str], *, canaries: Canaries | None = None) -> None:
        self.devices = devices
        self.poller = Poller(devices, uuids)
        self.canaries = canaries or Canaries(devices)
        self.xids: dict[str, list[int]] = {}
        self.told: dict[str, int] = {}
        self.busy: frozenset[str] = frozenset()

    def collect(self, deadline_s: float) -> list[GpuSample]:
        """A sample of every GPU, within ``deadline_s`` in all. A GPU that hangs still tells its Xids."""
        samples = self.poller.collect(deadline_s)
        for uuid, numbers in self.devices.xids().items():
            waiting = self.xids.setdefault(uuid, [])
            waiting += numbers[: MAX_XIDS - len(waiting)]
        for sample in samples:
            uuid = sample["uuid"]
            if self.xids.get(uuid):
                sample["xids"] = list(self.xids[uuid])
                sample["xids_before"] = self.told.get(uuid, 0)
            result = self.canaries.result(uuid)
            if result is not None:
                sample["canary"] = result
        return samples

    def heard(self, samples: Sequence[GpuSample] | None, wanted: Iterable[str]) -> None:
        """The server has these samples (None: the message had none), and wants these GPUs tested."""
        for sample in samples or ():
            uuid, count = sample["uuid"], len(sample.get("xids", ()))
            self.told[uuid] = self.told.get(uuid, 0) + count
            self.xids[uuid] = self.xids.get(uuid, [])[count:]
            if "canary" in sample:
                self.canaries.told(uuid)
        self.canaries.want(wanted, self.busy)

    def note_busy(self, uuids: frozenset[str]) -> None:
        """These GPUs are held by jobs from now on, and no others."""
        self.busy = uuids
        self.devices.note_busy(uuids)

    def look_anew(self, uuids: Sequence[str]) -> None:
        """The node has other GPUs than before."""
        self.poller = Poller(self.devices, uuids)
