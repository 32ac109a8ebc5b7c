"""What of a finished attempt goes up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.workers.agent.server import TOKEN, NodeServer, launch_of
from workers.agent import messages as m
from workers.agent.client import Api
from workers.agent.launch import lay_out
from workers.agent.publish import checkpoint_files, publish_attempt, publish_snapshot
from workers.agent.statedir import Ref
from workers.agent.transfer import Patience, TransferFailed


@contextmanager
def publishing(tmp_path: Path) -> Iterator[tuple[NodeServer, Any]]:
    """``send(outputs=…, checkpoint=…, clean=…)`` publishes what the test laid under ``tmp_path/work``."""
    lay_out(tmp_path)
    with NodeServer() as server:
        api = Api(server.url, TOKEN)

        def send(
            *outputs: dict[str, Any], checkpoint: bool = False, clean: bool = True, kind: str = "command",
            declared: str | None = None,
        ) -> m.Published:  # fmt: skip
            launch: Any = launch_of(kind=kind)
            command = m.Publish(Ref("a1", 1), launch, outputs, checkpoint, clean, 7, declared)
            saved = checkpoint_files(command, tmp_path)
            return publish_attempt(api, command, tmp_path, Patience(lambda tries: tries < 3), saved=saved)

        try:
            yield server, send
        finally:
            api.close()


def lay(tmp_path: Path, *paths: str) -> None:
    for path in paths:
        target = tmp_path / "work" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(os.fsencode(path))


def output(path: str) -> dict[str, Any]:
    return {"type": "artifact", "name": "merged", "path": path, "kind": "model"}


def names(server: NodeServer, artifact: str) -> list[str]:
    return sorted(server.artifacts[artifact]["bytes"])


def test_a_directory_is_uploaded_with_paths_below_it(tmp_path: Path) -> None:
    lay(tmp_path, "output/model/a", "output/model/b/c", "output/other")
    with publishing(tmp_path) as (server, send):
        assert names(server, send(output("model")).artifacts[0]) == ["a", "b/c"]


def test_a_single_file_keeps_its_name(tmp_path: Path) -> None:
    lay(tmp_path, "output/r/result.json")
    with publishing(tmp_path) as (server, send):
        assert names(server, send(output("r/result.json")).artifacts[0]) == ["result.json"]


@pytest.mark.parametrize("path", ["../checkpoint", "/etc", "model/../../x", "missing", "empty"])
def test_an_output_that_is_not_there_or_elsewhere_is_refused_by_name(tmp_path: Path, path: str) -> None:
    (tmp_path / "work/output/empty").mkdir(parents=True)
    with publishing(tmp_path) as (server, send):
        with pytest.raises(TransferFailed, match="merged"):
            send(output(path))
        assert server.artifacts == {}


def test_a_path_out_of_the_directory_is_refused_in_words_that_can_be_read(tmp_path: Path) -> None:
    with publishing(tmp_path) as (_, send), pytest.raises(TransferFailed) as refused:
        send(output("../x"))
    assert str(refused.value) == ("artifact 'merged': unsafe file name '../x'; it is relative to EMEP_OUTPUT_DIR")


def test_a_checkpoint_goes_up_in_two_parts(tmp_path: Path) -> None:
    lay(tmp_path, "checkpoint/step-7/w.bin")
    with publishing(tmp_path) as (server, send):
        published = send(checkpoint=True)
        assert names(server, published.checkpoint) == ["experiment.json", "framework/step-7/w.bin"]
        assert server.artifacts[published.checkpoint]["meta"] == {"step": 7, "clean": True}


def test_a_job_that_writes_both_parts_itself_is_taken_as_it_is(tmp_path: Path) -> None:
    lay(tmp_path, "checkpoint/experiment.json", "checkpoint/framework/w.bin")
    with publishing(tmp_path) as (server, send):
        assert names(server, send(checkpoint=True).checkpoint) == ["experiment.json", "framework/w.bin"]


def test_nothing_saved_is_no_checkpoint(tmp_path: Path) -> None:
    with publishing(tmp_path) as (_, send):
        assert send(checkpoint=True).checkpoint is None


@pytest.mark.parametrize(("kind", "more"), [("command", []), ("merge", ["framework/merge.part"])])
def test_after_a_disorderly_end_half_written_parts_stay_behind(tmp_path: Path, kind: str, more: list[str]) -> None:
    lay(
        tmp_path, "checkpoint/old/w", "checkpoint/new/w", "checkpoint/new/checkpoint-is-incomplete.txt",
        "checkpoint/x.tmp", "checkpoint/.step-9.tmp/w", "checkpoint/merge.part",
    )  # fmt: skip
    with publishing(tmp_path) as (server, send):
        kept = names(server, send(checkpoint=True, clean=False, kind=kind).checkpoint)
        assert kept == ["experiment.json", *more, "framework/old/w"]


def test_after_a_disorderly_end_only_what_was_declared_complete_is_taken(tmp_path: Path) -> None:
    lay(tmp_path, "checkpoint/step-7/w", "checkpoint/half")
    with publishing(tmp_path) as (server, send):
        kept = names(server, send(checkpoint=True, clean=False, declared="step-7").checkpoint)
        assert kept == ["experiment.json", "framework/step-7/w"]


def test_a_whole_directory_that_was_declared_and_changed_since_is_not_taken_again(tmp_path: Path) -> None:
    lay(tmp_path, "checkpoint/w")
    with publishing(tmp_path) as (_, send):
        assert send(checkpoint=True, clean=False, declared=".").checkpoint is None


def test_the_whole_output_directory_can_be_one_output(tmp_path: Path) -> None:
    lay(tmp_path, "output/a", "output/b/c")
    with publishing(tmp_path) as (server, send):
        assert names(server, send(output(".")).artifacts[0]) == ["a", "b/c"]


def test_a_link_inside_the_output_goes_up_as_the_file_it_leads_to(tmp_path: Path) -> None:
    lay(tmp_path, "output/model/a")
    (tmp_path / "work/output/model/latest").symlink_to("a")
    with publishing(tmp_path) as (server, send):
        stored = server.artifacts[send(output("model")).artifacts[0]]["bytes"]
        assert stored["latest"] == stored["a"] == b"output/model/a"


def test_a_link_inside_a_checkpoint_goes_up_as_the_file_it_leads_to(tmp_path: Path) -> None:
    lay(tmp_path, "checkpoint/step-7/w")
    (tmp_path / "work/checkpoint/latest").symlink_to("step-7")
    with publishing(tmp_path) as (server, send):
        assert "framework/latest/w" in names(server, send(checkpoint=True).checkpoint)


def test_a_running_jobs_checkpoint_goes_up_with_its_link(tmp_path: Path) -> None:
    lay(tmp_path, "checkpoint/step-7/w")
    (tmp_path / "work/checkpoint/step-7/latest").symlink_to("w")
    with publishing(tmp_path) as (server, _):
        command = m.Snapshot(Ref("a1", 1), launch_of(), "step-7", 7)  # type: ignore[arg-type]
        taken = publish_snapshot(Api(server.url, TOKEN), command, tmp_path, Patience(lambda tries: tries < 3))
        assert names(server, taken.artifact or "")[1:] == ["framework/step-7/latest", "framework/step-7/w"]


@pytest.mark.parametrize("where", ["output", "checkpoint"])
def test_a_name_that_is_not_utf8_is_refused_by_name(tmp_path: Path, where: str) -> None:
    lay(tmp_path, f"{where}/model/na\udcffme")
    with publishing(tmp_path) as (_, send), pytest.raises(TransferFailed, match=r"na\\xffme' is not UTF-8; rename it"):
        send(*[output("model")] * (where == "output"), checkpoint=where == "checkpoint")


@pytest.mark.parametrize("field", ["name", "kind", "path", "meta"])
def test_an_announcement_that_is_not_utf8_is_refused(tmp_path: Path, field: str) -> None:
    lay(tmp_path, "output/model/a")
    with publishing(tmp_path) as (_, send), pytest.raises(TransferFailed, match=r"^artifact .*UTF-8"):
        send({**output("model"), field: {"of": "\ud800"} if field == "meta" else "\ud800"})


def wrong(number: int) -> dict[str, Any]:
    return {**output(f"no-{number}"), "name": f"out-{number}"}


def test_all_artifacts_that_can_not_be_taken_are_told_together_and_nothing_is_sent(tmp_path: Path) -> None:
    lay(tmp_path, "output/model/a")
    with publishing(tmp_path) as (server, send):
        with pytest.raises(TransferFailed) as problem:
            send(wrong(1), output("model"), {**output("../x"), "name": "out"})
        assert str(problem.value).startswith("2 of 3 artifacts can't be taken: artifact 'out-1' in EMEP_OUTPUT_DIR: ")
        assert "; artifact 'out': " in str(problem.value)
        assert server.artifacts == {}


def test_of_very_many_a_few_are_told_and_the_rest_counted(tmp_path: Path) -> None:
    with publishing(tmp_path) as (_, send):
        with pytest.raises(TransferFailed) as problem:
            send(*(wrong(number) for number in range(12)))
        assert str(problem.value).count("artifact 'out-") == 5
        assert str(problem.value).endswith("; and 7 more")
