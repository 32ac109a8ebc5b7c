"""Bytes down and up over real HTTP: cut, wrong, unsafe, repeated."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.workers.agent.server import TOKEN, NodeServer
from workers.agent import fetching as fetching_of_files
from workers.agent import sending
from workers.agent.client import Api
from workers.agent.fetching import Fetcher
from workers.agent.sending import publish
from workers.agent.statedir import Ref
from workers.agent.transfer import Aborted, Patience, TransferFailed
from workers.bundles import SMALL_BYTES

REF = Ref("a1", 1)
# A file that travels alone; small ones are in test_bundles.
CONTENT = bytes(range(256)) * 1100
assert len(CONTENT) > SMALL_BYTES


def entry(path: str, content: bytes = CONTENT, **changes: Any) -> Any:
    return {"path": path, "size": len(content), "sha256": hashlib.sha256(content).hexdigest(), **changes}


def patience(most: int = 5) -> Patience:
    return Patience(lambda tries: tries <= most)


@contextmanager
def fetching(tmp_path: Path, most: int = 5) -> Iterator[tuple[NodeServer, Fetcher, Path]]:
    with NodeServer() as server:
        server.inputs[("art", "m/w.bin")] = CONTENT
        cache, inputs = tmp_path / "cache", tmp_path / "input"
        cache.mkdir(exist_ok=True)
        inputs.mkdir(exist_ok=True)
        api = Api(server.url, TOKEN)
        try:
            yield server, Fetcher(api, cache, ref=REF, patience=patience(most)), inputs
        finally:
            api.close()


def one(*files: Any, name: str = "base") -> list[dict[str, Any]]:
    return [{"artifact": "art", "as": name, "files": list(files)}]


# ---------------------------------------------------------------- down


def test_inputs_lie_under_their_names_read_only(tmp_path: Path) -> None:
    with fetching(tmp_path) as (_, fetcher, inputs):
        fetcher.inputs(one(entry("m/w.bin")), inputs)
        path = inputs / "base" / "m" / "w.bin"
        assert path.read_bytes() == CONTENT
        assert path.stat().st_mode & 0o222 == 0


def test_a_cut_download_goes_on_where_it_was(tmp_path: Path) -> None:
    with fetching(tmp_path) as (server, fetcher, inputs):
        server.cut_after = 1000
        fetcher.inputs(one(entry("m/w.bin")), inputs)
        assert (inputs / "base/m/w.bin").read_bytes() == CONTENT
        assert server.ranges == ["", "bytes=1000-"]


def test_the_same_content_is_fetched_once(tmp_path: Path) -> None:
    with fetching(tmp_path) as (server, fetcher, inputs):
        fetcher.inputs(one(entry("m/w.bin")), inputs)
        fetcher.inputs(one(entry("other/name.bin"), name="again"), inputs)
        assert (inputs / "again/other/name.bin").read_bytes() == CONTENT
        assert len(server.ranges) == 1


def test_a_cached_file_that_a_job_wrote_to_is_fetched_again(tmp_path: Path) -> None:
    with fetching(tmp_path) as (server, fetcher, inputs):
        fetcher.inputs(one(entry("m/w.bin")), inputs)
        spoilt = inputs / "base/m/w.bin"
        spoilt.chmod(0o644)
        with spoilt.open("r+b") as out:
            out.write(b"!")
        fetcher.inputs(one(entry("m/w.bin"), name="again"), inputs)
        assert (inputs / "again/m/w.bin").read_bytes() == CONTENT
        assert len(server.ranges) == 2


def test_wrong_bytes_are_refused_after_three_tries(tmp_path: Path) -> None:
    with fetching(tmp_path) as (server, fetcher, inputs):
        with pytest.raises(TransferFailed, match="sha256"):
            fetcher.inputs(one(entry("m/w.bin", sha256="0" * 64)), inputs)
        assert len(server.ranges) == 3
        assert not (inputs / "base").exists()


def test_more_bytes_than_promised_are_refused(tmp_path: Path) -> None:
    with (
        fetching(tmp_path) as (_, fetcher, inputs),
        pytest.raises(TransferFailed, match=f"more bytes than its size of {len(CONTENT) - 1}"),
    ):
        fetcher.inputs(one(entry("m/w.bin", size=len(CONTENT) - 1)), inputs)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "a\0b", "", "a//b", "con\\x", "nul."])
def test_an_unsafe_path_is_refused_before_anything_is_written(tmp_path: Path, path: str) -> None:
    with fetching(tmp_path) as (server, fetcher, inputs):
        with pytest.raises(TransferFailed):
            fetcher.inputs(one(entry(path)), inputs)
        assert (server.ranges, list(inputs.iterdir())) == ([], [])


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["a", "a/b"], "art can't be laid out: 'a' is a file and also the folder of 'a/b'"),
        (["a/b/c", "A/B"], "art can't be laid out: 'A/B' is a file and also the folder of 'a/b/c'"),
        (["m/w", "M/W"], "art can't be laid out: two files have one name"),
        (["x" * 256], f"the name '{'x' * 80}'... is longer than 255 bytes"),
    ],
)
@pytest.mark.parametrize("what", ["input", "checkpoint"])
def test_files_that_no_node_can_lay_out_are_the_jobs_fault_and_nothing_is_fetched(
    tmp_path: Path, paths: list[str], said: str, what: str
) -> None:
    files = [entry(path) for path in paths]
    with fetching(tmp_path) as (server, fetcher, inputs):
        asked: Any = one(*files) if what == "input" else {"artifact": "art", "step": 1, "files": files}
        with pytest.raises(TransferFailed) as caught:
            (fetcher.inputs if what == "input" else fetcher.checkpoint)(asked, inputs)
        assert (str(caught.value).startswith(said), caught.value.retryable) == (True, False)
        assert (server.ranges, list(inputs.iterdir())) == ([], [])


@pytest.mark.parametrize("code", [errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.EILSEQ])
def test_a_name_that_the_nodes_file_system_refuses_is_the_jobs_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuses(source: Path, target: Path) -> None:
        raise OSError(code, os.strerror(code), str(target))

    monkeypatch.setattr(fetching_of_files, "link", refuses)
    with fetching(tmp_path) as (_, fetcher, inputs):
        with pytest.raises(TransferFailed) as caught:
            fetcher.inputs(one(entry("m/w.bin")), inputs)
        told = f"'m/w.bin' can't be laid out on the node ({os.strerror(code)}): rename it"
        assert (str(caught.value), caught.value.retryable) == (told, False)


def test_a_disk_that_is_full_when_inputs_are_laid_out_is_the_nodes_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))

    monkeypatch.setattr(fetching_of_files, "link", full)
    with fetching(tmp_path) as (_, fetcher, inputs):
        with pytest.raises(TransferFailed, match="no space left on the node") as caught:
            fetcher.inputs(one(entry("m/w.bin")), inputs)
        assert caught.value.retryable


@pytest.mark.parametrize("name", ["..", "a/b", "/", ""])
def test_an_unsafe_input_name_is_refused(tmp_path: Path, name: str) -> None:
    with fetching(tmp_path) as (_, fetcher, inputs), pytest.raises(TransferFailed):
        fetcher.inputs(one(entry("m/w.bin"), name=name), inputs)


@pytest.mark.parametrize("sha256", ["../../../../etc/passwd", "0" * 63, "G" * 64])
def test_a_sha256_that_is_none_never_becomes_a_file_name(tmp_path: Path, sha256: str) -> None:
    with fetching(tmp_path) as (_, fetcher, inputs), pytest.raises(TransferFailed, match="64 hex"):
        fetcher.inputs(one(entry("m/w.bin", sha256=sha256)), inputs)


def test_a_server_that_is_away_is_waited_for(tmp_path: Path) -> None:
    with fetching(tmp_path) as (server, fetcher, inputs):
        server.fault = "503"

        def back(tries: int) -> bool:
            server.fault = None if tries == 3 else "503"
            return True

        fetcher.patience = Patience(back)
        fetcher.inputs(one(entry("m/w.bin")), inputs)
        assert (inputs / "base/m/w.bin").read_bytes() == CONTENT


def test_an_aborted_download_ends(tmp_path: Path) -> None:
    with fetching(tmp_path, most=0) as (server, fetcher, inputs):
        server.fault = "503"
        with pytest.raises(Aborted):
            fetcher.inputs(one(entry("m/w.bin")), inputs)


def test_a_full_disk_is_the_nodes_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    with fetching(tmp_path) as (_, fetcher, inputs):
        monkeypatch.setattr(fetcher, "_go_on", full)
        with pytest.raises(TransferFailed, match="no space left") as caught:
            fetcher.inputs(one(entry("m/w.bin")), inputs)
        assert caught.value.retryable


def test_an_empty_file_is_an_input_like_any_other(tmp_path: Path) -> None:
    with fetching(tmp_path) as (server, fetcher, inputs):
        server.inputs[("art", "empty")] = b""
        fetcher.inputs(one(entry("empty", b"")), inputs)
        assert (inputs / "base/empty").read_bytes() == b""


def test_a_checkpoint_is_restored_writable_in_place_of_what_was_there(tmp_path: Path) -> None:
    with fetching(tmp_path) as (_, fetcher, _inputs):
        target = tmp_path / "checkpoint"
        target.mkdir()
        (target / "old").touch()
        fetcher.checkpoint({"artifact": "art", "step": 1, "files": [entry("m/w.bin")]}, target)
        assert sorted(p.name for p in target.rglob("*")) == ["m", "w.bin"]
        (target / "m/w.bin").write_bytes(b"the job goes on")
        assert list((tmp_path / "cache").glob("*/*"))[0].read_bytes() == CONTENT  # noqa: RUF015


def laid(server: NodeServer, tmp_path: Path, fetcher: Fetcher, **files: bytes) -> list[str]:
    """Restore a checkpoint of ``files`` (``__`` for a slash); the paths that are there then."""
    entries = []
    for name, content in files.items():
        path = name.replace("__", "/").replace("experiment", "experiment.json")
        server.inputs[("ck", path)] = content
        entries.append(entry(path, content))
    target = tmp_path / "checkpoint"
    fetcher.checkpoint({"artifact": "ck", "step": 1, "files": entries}, target)
    return sorted(str(p.relative_to(target)) for p in target.rglob("*") if p.is_file())


def test_a_checkpoint_wrapped_by_an_agent_is_restored_to_where_the_job_had_it(tmp_path: Path) -> None:
    with fetching(tmp_path) as (server, fetcher, _):
        wrapped = b'{"layout": "wrapped"}'
        assert laid(server, tmp_path, fetcher, experiment=wrapped, framework__state=b"x") == ["state"]


def test_a_checkpoint_in_two_parts_by_the_job_itself_is_restored_as_it_was(tmp_path: Path) -> None:
    with fetching(tmp_path) as (server, fetcher, _):
        own = b'{"plan": "sha256:00"}'
        assert laid(server, tmp_path, fetcher, experiment=own, framework__state=b"x") == [
            "experiment.json", "framework/state",
        ]  # fmt: skip


# ---------------------------------------------------------------- up


@contextmanager
def publishing(tmp_path: Path, content: bytes = CONTENT) -> Iterator[tuple[NodeServer, Any]]:
    source = tmp_path / "w.bin"
    source.write_bytes(content)
    with NodeServer() as server:
        api = Api(server.url, TOKEN)

        def send(path: str = "d/w.bin") -> str:
            return publish(api, REF, name="m", kind="model", meta={}, files={path: source}, patience=patience())

        try:
            yield server, send
        finally:
            api.close()


def test_an_upload_arrives_in_parts_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "PART_BYTES", 100_000)
    with publishing(tmp_path) as (server, send):
        artifact = send()
        assert server.artifacts[artifact]["bytes"] == {"d/w.bin": CONTENT}
        assert [offset for _, offset, _ in server.parts] == [0, 100_000, 200_000]


def test_a_wrong_offset_is_corrected_by_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "PART_BYTES", 100_000)
    with publishing(tmp_path) as (server, send):
        server.part_faults = [{"status": 409, "body": {"offset": 0}}]
        assert server.artifacts[send()]["bytes"] == {"d/w.bin": CONTENT}


def test_a_server_that_never_agrees_on_the_offset_is_given_up(tmp_path: Path) -> None:
    with publishing(tmp_path) as (server, send):
        server.part_faults = [{"status": 409, "body": {"offset": 5}}] * 100
        with pytest.raises(TransferFailed):
            send()
        assert len(server.part_faults) > 80


def test_a_part_the_server_was_too_busy_for_is_sent_again(tmp_path: Path) -> None:
    with publishing(tmp_path) as (server, send):
        server.part_faults = [{"status": 503, "body": {}}, {"status": 500, "body": {}}]
        assert server.artifacts[send()]["bytes"] == {"d/w.bin": CONTENT}


def test_a_stale_epoch_at_any_step_says_so(tmp_path: Path) -> None:
    with publishing(tmp_path) as (server, send):
        server.part_faults = [{"status": 409, "body": {"code": "stale_epoch"}}]
        with pytest.raises(TransferFailed) as caught:
            send()
        assert caught.value.stale


def test_a_refusal_is_not_repeated_and_carries_the_servers_words(tmp_path: Path) -> None:
    with publishing(tmp_path) as (server, send):
        server.part_faults = [{"status": 413, "body": {"detail": "quota of 10 GB exceeded"}}]
        with pytest.raises(TransferFailed, match="quota of 10 GB") as caught:
            send()
        assert not caught.value.stale


def test_bytes_the_server_has_are_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with publishing(tmp_path) as (server, send):
        answer = server.upload

        def knows(method: str, parts: list[str], query: Any, body: bytes) -> tuple[int, Any]:
            status, value = answer(method, parts, query, body)
            if method == "POST" and len(parts) == 3:
                server.uploads[value["upload"]]["bytes"]["d/w.bin"] = CONTENT
                value["have"] = {"d/w.bin": len(CONTENT)}
            return status, value

        monkeypatch.setattr(server, "upload", knows)
        assert server.artifacts[send()]["bytes"] == {"d/w.bin": CONTENT}
        assert server.parts == []


def test_an_unsafe_name_is_not_uploaded(tmp_path: Path) -> None:
    with publishing(tmp_path) as (server, send):
        with pytest.raises(TransferFailed, match="unsafe"):
            send("../w.bin")
        assert server.uploads == {}


def test_an_empty_file_is_uploaded_too(tmp_path: Path) -> None:
    with publishing(tmp_path, b"") as (server, send):
        assert send() in server.artifacts
