"""``--check``: what the agent sees on this node, and what is wrong."""

from __future__ import annotations

import ipaddress
import os
import pwd
import shutil
import socket
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, TextIO

from workers.agent.cgroup_check import cgroup_check
from workers.agent.client import Api, CallFailed
from workers.agent.devices import Devices, DevicesError, Poller, trouble
from workers.agent.messages import FailureKind
from workers.agent.processes import Processes
from workers.agent.settings import BadSettings, Settings
from workers.agent.statedir import StateDir

DEADLINE_S = 5.0
Opener = Callable[[Settings], tuple[Devices, dict[str, Any]]]


def check(settings: Settings, open_devices: Opener, out: TextIO) -> int:
    """Write one line for each thing looked at; 0 when nothing is wrong, else 1.

    A line that begins with ``!`` is a warning: the node is fit for jobs of its own, but not for others.
    """
    bad = 0
    looks = (_state(settings), _cgroup(settings), _server(settings), _gpus(settings, open_devices), _user(settings))
    for good, line in chain.from_iterable(looks):
        out.write(f"{'ok ' if good else 'BAD'} {line}\n")
        bad += not good
    reachable, line = _address(settings)
    out.write(f"{'ok ' if reachable else '!  '} {line}\n")
    return 1 if bad else 0


def _address(settings: Settings) -> tuple[bool, str]:
    address = settings.address or socket.gethostname()
    line = f"address {address}: what the other nodes of a job are told"
    remedy = "jobs on several nodes can't meet here; set address to what the others reach this node by"
    try:
        found = {str(entry[4][0]).partition("%")[0] for entry in socket.getaddrinfo(address, None)}
    except (OSError, UnicodeError) as problem:
        return False, f"{line}, but it leads nowhere from here ({problem}): {remedy}"
    if all(ipaddress.ip_address(one).is_loopback for one in found):
        return False, f"{line}, but {', '.join(sorted(found))} is every machine's own: {remedy}"
    return True, f"{line} ({', '.join(sorted(found))})"


def _state(settings: Settings) -> Iterator[tuple[bool, str]]:
    try:
        state = StateDir(settings.state)
    except OSError as problem:
        yield False, f"state {settings.state}: {problem.strerror}"
        return
    free = shutil.disk_usage(state.root).free
    enough = free >= settings.disk_low_bytes
    yield enough, f"state {state.root}: {free / 2**30:.1f} GiB free, {settings.disk_low_bytes / 2**30:.1f} needed"
    alive = Processes(state).keeper_alive()
    yield True, f"keeper: {'runs' if alive else 'none yet; the agent starts one'}; attempts: {len(state.refs())}"


def _cgroup(settings: Settings) -> Iterator[tuple[bool, str]]:
    try:
        wrong, words = cgroup_check(settings)
    except OSError:
        return  # said of the state directory already
    yield not wrong, wrong or f"cgroup: {words}"


def _server(settings: Settings) -> Iterator[tuple[bool, str]]:
    try:
        api = Api(settings.server, settings.token(), timeout_s=DEADLINE_S)
    except BadSettings as problem:
        yield False, str(problem)
        return
    try:
        api.call("GET", "nodes/bell/", params={"since": -1}, timeout_s=DEADLINE_S)
        yield True, f"server {settings.server}: knows this node's token"
    except CallFailed as problem:
        failure = problem.failure
        if failure.kind is FailureKind.SILENT and "ReadTimeout" in failure.message:
            yield True, f"server {settings.server}: knows this node's token (and has no news)"
        else:
            yield False, f"server {settings.server}: {failure.message}"
    finally:
        api.close()


def _gpus(settings: Settings, open_devices: Opener) -> Iterator[tuple[bool, str]]:
    try:
        devices, _ = open_devices(settings)
    except DevicesError as problem:
        yield False, f"gpus: {problem}"
        return
    rows = devices.inventory()
    yield bool(rows), f"gpus: {len(rows)} {'simulated' if devices.simulated else 'real'}"
    for line in devices.left_out():
        yield False, line
    samples = {s["uuid"]: s for s in Poller(devices, [gpu["uuid"] for gpu in rows]).collect(DEADLINE_S)}
    for gpu in rows:
        wrong = trouble(samples[gpu["uuid"]])
        group = gpu["nvlink_group_id"] or "no NVLink group"
        words = f"gpu {gpu['index']} {gpu['uuid']} {gpu['model']} {gpu['memory_mib']} MiB, {group}"
        yield not wrong, f"{words}: {wrong}" if wrong else words
    devices.close()


def _user(settings: Settings) -> Iterator[tuple[bool, str]]:
    if settings.run_as is None:
        return
    try:
        pwd.getpwnam(settings.run_as)
    except KeyError:
        yield False, f"run_as {settings.run_as}: there is no such user"
        return
    yield os.geteuid() == 0, f"run_as {settings.run_as}: {'ok' if os.geteuid() == 0 else 'only root can do that'}"
