"""Small files of an attempt travel together, and what has arrived of them is not moved again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.workers.agent.server import TOKEN, NodeServer
from workers.agent.client import Api
from workers.agent.fetching import Fetcher
from workers.agent.meter import Meter, Moved
from workers.agent.sending import publish
from workers.agent.statedir import Ref
from workers.agent.transfer import Aborted, Patience, TransferFailed
from workers.bundles import MAX_BYTES, MAX_FILES, SMALL_BYTES, grouped

REF = Ref("a1", 1)
FILES = {f"f{n}": f"content {n}".encode() for n in range(5)}
LOST = {"status": 503, "body": {}, "late": True}  # the bundle has come, its answer has not


class Mover:
    """The agent's side of one attempt against the double; ``told`` is what its meter said."""

    def __init__(self, tmp_path: Path, server: NodeServer, api: Api) -> None:
        self.tmp_path, self.server, self.api = tmp_path, server, api
        self.told: list[Moved] = []
        self.over = False
        self.patience = Patience(lambda tries: tries < 5, lambda: self.over)
        self.meter = Meter(REF, self.told.append, lambda: 0.0, 0.0)

    def save(self, files: dict[str, bytes] = FILES) -> dict[str, bytes]:
        """Send the files as a checkpoint; what the server then has of it."""
        sources = {}
        for name, content in files.items():
            sources[name] = self.tmp_path / name
            sources[name].write_bytes(content)
        artifact = publish(
            self.api, REF, name="checkpoint", kind="checkpoint", meta={}, files=sources, patience=self.patience,
            meter=self.meter,
        )  # fmt: skip
        kept: dict[str, bytes] = self.server.artifacts[artifact]["bytes"]
        return kept

    def fetch(self, files: dict[str, bytes] = FILES, **wrong: str) -> dict[str, bytes]:
        """Restore a checkpoint of the files; what then lies there. ``wrong``: the sha256 told of a file instead."""
        entries: list[Any] = []
        for name, content in files.items():
            self.server.inputs[("ck", name)] = content
            sha256 = wrong.get(name) or hashlib.sha256(content).hexdigest()
            entries.append({"path": name, "size": len(content), "sha256": sha256})
        cache, target = self.tmp_path / "cache", self.tmp_path / "checkpoint"
        cache.mkdir(exist_ok=True)
        fetcher = Fetcher(self.api, cache, ref=REF, patience=self.patience, meter=self.meter)
        fetcher.checkpoint({"artifact": "ck", "step": 1, "files": entries}, target)
        return {path.name: path.read_bytes() for path in target.iterdir()}


@contextmanager
def moving(tmp_path: Path) -> Iterator[Mover]:
    with NodeServer() as server:
        api = Api(server.url, TOKEN)
        try:
            yield Mover(tmp_path, server, api)
        finally:
            api.close()


def test_groups_keep_the_order_and_both_limits() -> None:
    sizes = [1] * (MAX_FILES + 1) + [MAX_BYTES // 2] * 3
    groups = list(grouped(sizes, lambda size: size))
    assert [size for group in groups for size in group] == sizes
    assert [len(group) for group in groups] == [MAX_FILES, 2, 2]


# ---------------------------------------------------------------- up


def test_small_files_go_up_in_one_request_beside_a_large_one(tmp_path: Path) -> None:
    with moving(tmp_path) as mover:
        large = bytes(SMALL_BYTES + 1)
        assert mover.save({**FILES, "large": large}) == {**FILES, "large": large}
        assert len(mover.server.parts) == len(FILES) + 1


def test_a_bundle_whose_answer_was_lost_is_not_sent_again(tmp_path: Path) -> None:
    with moving(tmp_path) as mover:
        mover.server.part_faults = [LOST]
        assert mover.save() == FILES
        assert len(mover.server.parts) == len(FILES)


def test_a_bundle_that_did_not_come_is_sent_again(tmp_path: Path) -> None:
    with moving(tmp_path) as mover:
        mover.server.part_faults = [{"status": 503, "body": {}}]
        assert mover.save() == FILES


def test_a_refused_bundle_is_not_repeated_and_says_why(tmp_path: Path) -> None:
    with moving(tmp_path) as mover:
        mover.server.part_faults = [{"status": 422, "body": {"detail": "'f1' has sha256 x, not y"}}]
        with pytest.raises(TransferFailed, match="'f1' has sha256"):
            mover.save()
        assert mover.server.parts == []


def test_an_aborted_upload_ends_before_its_next_request(tmp_path: Path) -> None:
    with moving(tmp_path) as mover:
        mover.over = True
        with pytest.raises(Aborted):
            mover.save()
        assert mover.server.uploads == {}


def test_it_tells_how_many_files_and_bytes_are_there(tmp_path: Path) -> None:
    with moving(tmp_path) as mover:
        mover.save()
        size = sum(map(len, FILES.values()))
        assert mover.told[-1] == Moved(REF, "saving checkpoint", 5, 5, size, size)


# ---------------------------------------------------------------- down


def test_small_files_come_down_in_one_request_and_are_verified(tmp_path: Path) -> None:
    with moving(tmp_path) as mover:
        assert mover.fetch() == FILES
        assert mover.server.bundles == [list(FILES)]


def test_of_a_bundle_that_was_cut_off_only_the_rest_is_asked_for_again(tmp_path: Path) -> None:
    with moving(tmp_path) as mover:
        mover.server.cut_before_end = len(b"content 4") + 1  # within the last file but one
        assert mover.fetch() == FILES
        assert mover.server.bundles == [list(FILES), ["f3", "f4"]]


def test_bytes_with_another_sha256_are_refused_after_three_tries_and_never_restored(tmp_path: Path) -> None:
    with moving(tmp_path) as mover:
        with pytest.raises(TransferFailed, match="f2: the bytes don't have the sha256"):
            mover.fetch(f2="0" * 64)
        assert [len(paths) for paths in mover.server.bundles] == [5, 1, 1]
        assert not (tmp_path / "checkpoint").exists()


def test_what_the_cache_has_is_not_asked_for(tmp_path: Path) -> None:
    with moving(tmp_path) as mover:
        mover.fetch()
        assert mover.fetch({**FILES, "new": b"new"}) == {**FILES, "new": b"new"}
        assert mover.server.bundles[1:] == [["new"]]


def test_fetching_tells_how_far_it_is(tmp_path: Path) -> None:
    with moving(tmp_path) as mover:
        mover.fetch()
        assert [(m.what, m.files, m.of_files) for m in mover.told][-1] == ("fetching checkpoint", 5, 5)


# ---------------------------------------------------------------- how often it is told


def test_a_meter_tells_only_after_its_while_and_then_of_the_end() -> None:
    now, told = [0.0], []
    meter = Meter(REF, told.append, lambda: now[0], 2.0)
    meter.begin("saving checkpoint", 10, 100)
    for _ in range(4):
        now[0] += 0.9
        meter.add(1, 10)
    assert [m.files for m in told] == [3]
    meter.end(whole=False)
    assert (told[-1].files, told[-1].over, told[-1].whole) == (4, True, False)


def test_of_two_transfers_one_after_the_other_the_end_of_each_is_told() -> None:
    now, told = [1.0], []
    meter = Meter(REF, told.append, lambda: now[0], 2.0)
    for step in (30, 40):
        meter.begin("saving checkpoint", 1, 10, step=step)
        now[0] += 3
        meter.add(1, 10)
    meter.end(whole=True)
    ends = [(m.step, m.begun, m.whole) for m in told if m.over]
    assert ends == [(30, 1000, True), (40, 4000, True)]


def test_of_a_short_transfer_nothing_is_told() -> None:
    told: list[Moved] = []
    meter = Meter(REF, told.append, lambda: 0.0, 2.0)
    meter.begin("saving checkpoint", 1, 1)
    meter.add(1, 1)
    meter.end(whole=True)
    assert told == []
