"""The checkpoints that a merge makes on its way: what its agent takes of them is all that a killed one leaves."""

from __future__ import annotations

import hashlib
import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from tests.workers.engines.dying import run_and_die
from tests.workers.kinds.builders import Job, merge_job
from tests.workers.kinds.test_merge_job import asked_after
from workers.agent.checkpoint_files import declared_files, held_still
from workers.engines.writing import PlannedWriter
from workers.kinds import checkpoint


@pytest.fixture
def at_every_tensor(monkeypatch) -> None:
    """A checkpoint is due and worth it after each tensor, however fast this machine is."""
    monkeypatch.setattr(checkpoint, "due_s", lambda elapsed, cost: 0.0)
    monkeypatch.setattr(checkpoint, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(checkpoint, "worth_shipping", lambda unsaved, spent: unsaved > 0)


def one(directory: Path, **environ: str) -> Job:
    directory.mkdir()
    return merge_job(directory, EMEP_GPU_COUNT="1", **environ)


def announced(job: Job) -> list[dict]:
    return [event for event in job.events if event["type"] == "checkpoint"]


def elsewhere(job: Job, still: Path | None) -> Job:
    """The next attempt on another node: of the checkpoint directory there is only what the agent had taken."""
    shutil.rmtree(job.checkpoint)
    if still is not None:
        shutil.copytree(still, job.checkpoint)
    return job.next_attempt(EMEP_RESUME="1" if still else "0")


def taken(job: Job, event: dict) -> Path:
    """What the agent holds of the announced checkpoint, out of the job's reach, as it does while it sends it."""
    into = job.directory / f"held-{event['step']}"
    held_still(job.checkpoint, declared_files(job.checkpoint, event["path"]), into)
    return into


def hashes(directory: Path) -> dict[str, str]:
    return {
        p.relative_to(directory).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in directory.rglob("*")
        if p.is_file()
    }


def watched(job: Job, monkeypatch, look) -> int:
    """Run the job, with ``look(event)`` at each checkpoint as it is announced; its exit code."""
    emit = type(job.context().events).emit

    def told(log, event_type: str, /, **fields) -> None:
        emit(log, event_type, **fields)
        if event_type == "checkpoint":
            look(fields)

    monkeypatch.setattr(type(job.context().events), "emit", told)
    code = job.run()
    monkeypatch.undo()
    return code


def test_killed_at_any_step_it_goes_on_elsewhere_from_the_newest_checkpoint_to_the_same_bytes(
    tmp_path: Path, at_every_tensor, capfd
) -> None:
    undisturbed = one(tmp_path / "undisturbed")
    assert undisturbed.run() == 0
    expected, step, died, kept = undisturbed.made, 0, True, set()
    while died:
        step += 1
        job = one(tmp_path / f"{step}")
        died = run_and_die(job.run, step)
        if died:
            said = announced(job)
            whole = said and (job.checkpoint / said[-1]["path"]).is_dir()  # else the agent was too late for it
            job = elsewhere(job, taken(job, said[-1]) if whole else None)
            capfd.readouterr()
            assert job.run() == 0
            if whole:
                assert f"resume: {said[-1]['step']} of 6 tensors" in capfd.readouterr().out
                kept.add(said[-1]["step"])
        assert job.made == expected
    assert kept == {1, 2, 3, 4, 5}


def test_what_the_agent_holds_does_not_change_while_the_merge_goes_on(tmp_path, at_every_tensor, monkeypatch) -> None:
    job, seen = one(tmp_path / "a"), {}

    def look(event: dict) -> None:
        into = taken(job, event)
        seen[into] = hashes(into)

    assert watched(job, monkeypatch, look) == 0
    assert [len(files) for files in seen.values()] == [2, 3, 4, 5, 6]  # state.json, and a file for each tensor
    assert all(hashes(into) == files for into, files in seen.items())


def test_a_later_checkpoint_costs_what_is_new(tmp_path: Path, at_every_tensor, monkeypatch) -> None:
    job, inodes = one(tmp_path / "a"), []

    def look(event: dict) -> None:
        into = job.checkpoint / event["path"]
        inodes.append({p.name: p.stat().st_ino for p in into.glob("*.bin")})

    watched(job, monkeypatch, look)
    assert all(earlier.items() <= later.items() for earlier, later in pairwise(inodes))
    sizes = [event["finished_bytes"] for event in announced(job)]
    assert sum(sizes) < 7396  # the output's, of which each byte is saved once at most


def test_nothing_of_it_is_left_when_the_merge_is_done(tmp_path: Path, at_every_tensor) -> None:
    job = one(tmp_path / "a")
    job.run()
    assert len(announced(job)) == 5
    assert list((job.checkpoint / "framework").iterdir()) == []


@pytest.mark.usefixtures("at_every_tensor")
@pytest.mark.parametrize("looks", range(1, 6))
def test_stopped_after_checkpoints_it_ships_what_is_new_and_goes_on_from_all(
    looks: int, tmp_path: Path, capsys
) -> None:
    undisturbed = one(tmp_path / "undisturbed")
    undisturbed.run()
    job = one(tmp_path / "a")
    assert job.run(asked_after(2 * looks)) == 85
    last = announced(job)[-1]
    again = elsewhere(job, taken(job, last))
    capsys.readouterr()
    assert again.run() == 0
    assert f"resume: {last['step']} of 6 tensors" in capsys.readouterr().out
    assert (last["path"], last["output_kept"], again.made) == (".", True, undisturbed.made)


def test_a_merge_that_is_faster_than_the_network_makes_none(tmp_path: Path, at_every_tensor, monkeypatch) -> None:
    monkeypatch.setattr(checkpoint, "worth_shipping", lambda unsaved, spent: False)
    job = one(tmp_path / "a")
    assert (job.run(), announced(job)) == (0, [])


def test_it_never_takes_more_than_the_jobs_disk_and_says_why_there_is_none(tmp_path: Path, at_every_tensor, capsys):
    inputs = sum(p.stat().st_size for p in (one(tmp_path / "x").directory / "inputs").rglob("*") if p.is_file())
    limit = inputs + 7396 + checkpoint.BESIDE_BYTES
    job = one(tmp_path / "a", EMEP_DISK_BYTES=str(limit))
    assert (job.run(), announced(job)) == (0, [])
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("no checkpoint on the way")]
    assert len(said) == 1
    assert f"its limit is {limit} (job_disk_bytes)" in said[0]


def test_without_room_for_a_copy_it_leaves_with_what_is_there_and_goes_on_in_as_little(
    tmp_path: Path, at_every_tensor, capsys
) -> None:
    undisturbed = one(tmp_path / "undisturbed")
    undisturbed.run()
    inputs = sum(p.stat().st_size for p in (undisturbed.directory / "inputs").rglob("*") if p.is_file())
    job = one(tmp_path / "a", EMEP_DISK_BYTES=str(inputs + 7396 + checkpoint.BESIDE_BYTES))
    assert job.run(asked_after(6)) == 85
    left = announced(job)
    assert [(e["path"], e["output_kept"]) for e in left] == [(".", True)]
    again = elsewhere(job, taken(job, left[0]))
    capsys.readouterr()
    assert again.run() == 0
    out = capsys.readouterr().out
    assert "resume: the checkpoint makes room for the output" in out
    assert f"resume: {left[0]['step']} of 6 tensors" in out
    assert again.made == undisturbed.made


def test_copies_without_room_beside_the_output_are_given_up_rather_than_the_job(
    tmp_path: Path, at_every_tensor, monkeypatch, capsys
) -> None:
    job, held = one(tmp_path / "a"), []
    watched(job, monkeypatch, lambda event: held.append(taken(job, event)))
    again = elsewhere(job, held[-1])
    inputs = sum(p.stat().st_size for p in (job.directory / "inputs").rglob("*") if p.is_file())
    again = again.next_attempt(EMEP_DISK_BYTES=str(inputs + 7396 + checkpoint.BESIDE_BYTES))
    capsys.readouterr()
    assert (again.run(), again.made) == (0, job.made)
    assert "resume: 0 of 6 tensors" in capsys.readouterr().out


def test_a_full_disk_costs_the_checkpoint_and_not_the_merge(
    tmp_path: Path, at_every_tensor, monkeypatch, capsys
) -> None:
    def full(writer, tensor):
        raise OSError(28, "No space left on device")
        yield b""

    monkeypatch.setattr(PlannedWriter, "stretches", full)
    job = one(tmp_path / "a")
    assert (job.run(), announced(job)) == (0, [])
    assert "no checkpoint on the way: no room for tensors-0.bin" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["cut", "flipped", "another plan", "no state", "not JSON"])
def test_a_damaged_checkpoint_costs_only_what_is_damaged(
    what: str, tmp_path, at_every_tensor, monkeypatch, capsys
) -> None:
    job, held = one(tmp_path / "a"), []
    watched(job, monkeypatch, lambda event: held.append(taken(job, event)))
    again = elsewhere(job, held[-1])
    step = again.checkpoint / "framework" / "step-5"
    damaged, state = max(step.glob("*.bin"), key=lambda p: p.stat().st_size), step / "state.json"
    if what == "cut":
        damaged.write_bytes(damaged.read_bytes()[:-1])
    elif what == "flipped":
        damaged.write_bytes(damaged.read_bytes()[:-1] + bytes([damaged.read_bytes()[-1] ^ 1]))
    elif what == "another plan":
        state.write_text(json.dumps({**json.loads(state.read_text()), "plan": "sha256:other"}))
    elif what == "no state":
        state.unlink()
    else:
        state.write_text("[")
    capsys.readouterr()
    assert (again.run(), again.made) == (0, job.made)
    assert f"resume: {4 if what in ('cut', 'flipped') else 0} of 6 tensors" in capsys.readouterr().out


@pytest.mark.usefixtures("at_every_tensor")
def test_what_a_merge_has_done_that_ends_by_a_fault_is_saved(tmp_path: Path, monkeypatch) -> None:
    undisturbed = one(tmp_path / "undisturbed")
    undisturbed.run()
    job = one(tmp_path / "a")
    write, due = PlannedWriter.write, checkpoint.due_s
    calls = iter(range(100))

    def failing(writer, tensor, stretches):
        if next(calls) == 3:
            raise RuntimeError("the GPU has fallen off the bus")
        write(writer, tensor, stretches)

    monkeypatch.setattr(PlannedWriter, "write", failing)
    monkeypatch.setattr(checkpoint, "due_s", lambda elapsed, cost: 3600.0)
    with pytest.raises(RuntimeError, match="off the bus"):
        job.run()
    monkeypatch.setattr(PlannedWriter, "write", write)
    monkeypatch.setattr(checkpoint, "due_s", due)
    again = elsewhere(job, taken(job, announced(job)[-1]))
    assert (announced(job)[0]["step"], again.run(), again.made) == (3, 0, undisturbed.made)


@pytest.mark.usefixtures("at_every_tensor")
def test_several_devices_save_too(tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "a").mkdir()
    job, held = merge_job(tmp_path / "a", EMEP_GPU_COUNT="2"), []
    watched(job, monkeypatch, lambda event: held.append(taken(job, event)))
    again = elsewhere(job, held[0])
    capsys.readouterr()
    assert (again.run(), again.made) == (0, job.made)
    assert f"resume: {announced(job)[0]['step']} of 6 tensors" in capsys.readouterr().out
