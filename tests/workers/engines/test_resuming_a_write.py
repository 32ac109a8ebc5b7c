"""A merge may end at any moment; what it leaves only ever saves work."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
from pathlib import Path

import pytest
import torch

from tests.workers.engines.builders import candidate, plan_of, random_model, refusal, sha256, written
from tests.workers.engines.dying import run_and_die
from workers.engines.merging import CPU, Candidate
from workers.engines.producing import partition, produce
from workers.engines.writing import JOURNAL, PlannedWriter

PART = "model.safetensors.part"


def pair(directory: Path) -> Candidate:
    return candidate(random_model(directory / "a", 1), random_model(directory / "b", 2), t=0.3, chunk=400)


def writer_for(made: Candidate, directory: Path, **options) -> PlannedWriter:
    return PlannedWriter(plan_of(made, max_shard_size=options.pop("shard", None)), directory / "work", **options)


def stop_after(count: int):
    calls = iter(range(10_000))
    return lambda: next(calls) >= count


def interrupted(made: Candidate, directory: Path, tensors: int = 3) -> None:
    """Write the first tensors, then leave everything as it is (flushed, not published)."""
    writer = writer_for(made, directory)
    writer.open()
    assert not produce(made, writer, should_stop=stop_after(tensors))
    writer.flush()
    writer.close()


def resumed(made: Candidate, directory: Path) -> tuple[int, Path]:
    """How many tensors a new run keeps, and its output."""
    writer = writer_for(made, directory)
    kept = len(writer.open())
    produce(made, writer)
    return kept, writer.publish(directory / "out")[0]


@pytest.mark.parametrize("shard", [None, 1000], ids=["one file", "shards"])
def test_killed_at_any_step_and_run_again_gives_the_same_bytes(shard, tmp_path: Path) -> None:
    made = pair(tmp_path)
    expected = [sha256(p) for p in sorted(written(made, tmp_path / "undisturbed", max_shard_size=shard))]
    step = 0
    while True:
        step += 1
        place = tmp_path / f"{step}"

        def merge(place: Path = place) -> None:
            writer = writer_for(made, place, shard=shard, flush_bytes=1)
            writer.open()
            produce(made, writer)
            writer.publish(place / "out")

        if not run_and_die(merge, step):
            break
        merge()
        assert [sha256(p) for p in sorted((place / "out").iterdir())] == expected
        assert sorted(p.name for p in (place / "work").iterdir()) == []
    assert step > 30


def test_killed_again_and_again_a_merge_still_gets_to_its_end(tmp_path: Path) -> None:
    made = pair(tmp_path)
    expected = sha256(written(made, tmp_path / "undisturbed")[0])

    def merge() -> None:
        writer = writer_for(made, tmp_path, flush_bytes=1)
        writer.open()
        produce(made, writer)
        writer.publish(tmp_path / "out")

    runs = 1
    while run_and_die(merge, 20):
        runs += 1
    assert (sha256(tmp_path / "out" / "model.safetensors"), runs > 1) == (expected, True)


def test_a_resume_keeps_what_is_in_the_journal(tmp_path: Path) -> None:
    made = pair(tmp_path)
    interrupted(made, tmp_path)
    kept, output = resumed(made, tmp_path)
    assert (kept, sha256(output)) == (3, sha256(written(made, tmp_path / "undisturbed")[0]))


def damage_torn_line(work: Path) -> None:
    (work / JOURNAL).write_bytes((work / JOURNAL).read_bytes()[:-5])


def damage_garbage_in_the_middle(work: Path) -> None:
    lines = (work / JOURNAL).read_bytes().split(b"\n")
    (work / JOURNAL).write_bytes(b"\n".join([lines[0], lines[1], b"\xff\x00{", *lines[2:]]))


def damage_bytes_of_a_tensor(work: Path) -> None:
    with (work / PART).open("r+b") as file:
        file.seek(-1100, os.SEEK_END)
        file.seek(600)
        file.write(b"wrong")


def damage_unknown_tensor(work: Path) -> None:
    with (work / JOURNAL).open("ab") as file:
        file.write(b'{"tensor":"nobody","crc32":5}\n')


DAMAGES = {
    "a torn last line": (damage_torn_line, 2),
    "garbage in the middle": (damage_garbage_in_the_middle, 1),
    "a changed byte": (damage_bytes_of_a_tensor, 2),
    "an unknown tensor": (damage_unknown_tensor, 3),
    "no part file": (lambda work: (work / PART).unlink(), 0),
    "a part file cut short": (lambda work: os.truncate(work / PART, 500), 1),
    "a part file too long": (lambda work: os.truncate(work / PART, 99_999), 3),
    "no journal": (lambda work: (work / JOURNAL).unlink(), 0),
    "an empty journal": (lambda work: (work / JOURNAL).write_bytes(b""), 0),
    "another plan's journal": (lambda work: (work / JOURNAL).write_bytes(b'{"plan":"sha256:00"}\n'), 0),
}


@pytest.mark.parametrize(("damage", "kept"), DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_only_costs_doing_the_work_again(damage, kept: int, tmp_path: Path) -> None:
    made = pair(tmp_path)
    interrupted(made, tmp_path)
    damage(tmp_path / "work")
    again, output = resumed(made, tmp_path)
    assert (again, sha256(output)) == (kept, sha256(written(made, tmp_path / "undisturbed")[0]))


def test_a_different_recipe_starts_over_and_leaves_no_old_part(tmp_path: Path) -> None:
    made = pair(tmp_path)
    interrupted(made, tmp_path)
    writer = PlannedWriter(plan_of(made, identity="another recipe", max_shard_size=1000), tmp_path / "work")
    kept = writer.open()
    writer.close()
    assert (len(kept), (tmp_path / "work" / PART).exists()) == (0, False)


def test_the_journal_names_a_tensor_only_after_its_data_was_synced(tmp_path: Path, monkeypatch) -> None:
    made, order = pair(tmp_path), []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (order.append("data"), real(fd)))
    writer = writer_for(made, tmp_path)
    writer.open()
    monkeypatch.setattr(writer._journal, "append", lambda entries: order.append("journal"))
    produce(made, writer)
    writer.flush()
    writer.close()
    assert order == ["data", "journal"]


def test_the_data_is_synced_after_so_many_bytes(tmp_path: Path) -> None:
    made = pair(tmp_path)
    writer = writer_for(made, tmp_path, flush_bytes=100)
    writer.open()
    produce(made, writer, should_stop=stop_after(2))
    writer.close()
    assert len(json_lines(tmp_path / "work" / JOURNAL)) == 1 + 2


def test_the_data_is_synced_after_so_many_seconds(tmp_path: Path) -> None:
    made, now = pair(tmp_path), [0.0]
    writer = writer_for(made, tmp_path, clock=lambda: now[0])
    writer.open()
    produce(made, writer, should_stop=stop_after(1))
    before = len(json_lines(tmp_path / "work" / JOURNAL))
    now[0] = 5.0
    produce(made, writer, should_stop=stop_after(1))
    writer.close()
    assert (before, len(json_lines(tmp_path / "work" / JOURNAL))) == (1, 2)  # the second waits for its own 5 s


def json_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_full_disk_is_found_before_any_tensor_is_computed(tmp_path: Path) -> None:
    def full(fd: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    made = pair(tmp_path)
    writer = writer_for(made, tmp_path, allocate=full)
    refused = refusal(writer.open)
    assert (refused.code, refused.details["bytes"], list((tmp_path / "work").iterdir())) == (
        "no_space",
        writer.plan.size,
        [],
    )


def test_a_file_size_limit_of_the_system_is_told_as_no_space(tmp_path: Path) -> None:
    made = pair(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        code = refusal(writer_for(made, tmp_path).open).code
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert code == "no_space"


def test_a_disk_that_fills_up_in_mid_write_is_told_as_no_space(tmp_path: Path, monkeypatch) -> None:
    made = pair(tmp_path)
    writer = writer_for(made, tmp_path)
    writer.open()

    def full(fd: int, data: bytes, offset: int) -> int:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(os, "pwrite", full)
    refused = refusal(produce, made, writer)
    writer.close()
    assert refused.code == "no_space"


def test_another_error_of_the_disk_is_not_hidden_as_no_space(tmp_path: Path) -> None:
    def broken(fd: int, offset: int, size: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        writer_for(pair(tmp_path), tmp_path, allocate=broken).open()


def test_a_kept_part_ends_with_its_last_finished_tensor_and_resumes(tmp_path: Path) -> None:
    made = pair(tmp_path)
    writer = writer_for(made, tmp_path)
    writer.open()
    produce(made, writer, should_stop=stop_after(2))
    second = writer.plan.tensors[1]
    kept = writer.keep()
    again, output = resumed(made, tmp_path)
    assert (kept, again) == (second.offset + second.spec.nbytes, 2)
    assert sha256(output) == sha256(written(made, tmp_path / "undisturbed")[0])


def test_an_unfinished_output_cannot_be_published(tmp_path: Path) -> None:
    made = pair(tmp_path)
    writer = writer_for(made, tmp_path)
    writer.open()
    with pytest.raises(ValueError, match="not yet written are 6 of 6; the first tensor is"):
        writer.publish(tmp_path / "out")
    writer.close()


def test_a_refused_tensor_publishes_nothing(tmp_path: Path) -> None:
    a = random_model(tmp_path / "a", 1)
    bad = random_model(tmp_path / "b", 2)
    with (bad / "model.safetensors").open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\xff\xff\xff\x7f")
    made = candidate(a, bad)
    writer = writer_for(made, tmp_path)
    writer.open()
    refused = refusal(produce, made, writer)
    writer.close()
    assert (refused.code, refused.details["tensor"], (tmp_path / "out").exists()) == ("nonfinite_input", "ü.w", False)


def test_the_bytes_do_not_depend_on_how_many_devices_share_the_work(tmp_path: Path) -> None:
    made = pair(tmp_path)
    writer = writer_for(made, tmp_path)
    writer.open()
    assert produce(made, writer, devices=[CPU, torch.device("cpu"), CPU])
    output = writer.publish(tmp_path / "out")[0]
    assert sha256(output) == sha256(written(made, tmp_path / "undisturbed")[0])


def test_the_work_is_shared_by_size_the_largest_first(tmp_path: Path) -> None:
    made = pair(tmp_path)
    shares = partition(plan_of(made).tensors, 2)
    loads = sorted(sum(t.spec.nbytes for t in share) for share in shares)
    assert loads == [72 + 160 + 420 + 4 + 1028, 5280]


def test_with_too_little_time_the_tensor_in_hand_is_given_up(tmp_path: Path) -> None:
    made = pair(tmp_path)
    writer = writer_for(made, tmp_path)
    writer.open()
    complete = produce(made, writer, must_stop=stop_after(4))
    done = writer.done
    writer.close()
    assert (complete, done) == (False, {"position_ids", "a.bias"})
