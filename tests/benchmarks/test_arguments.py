"""Whatever a benchmark can't use is refused in one line that names the argument and what to write, with status 2."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from benchmarks import core, embedded, merge, packing, policy

JOBS = "job_id,submit_s,duration_s,gpus\n"


def said(main, *arguments: str, capsys) -> str:
    """The one line of a program that ends with status 2."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    told = capsys.readouterr().err
    assert (ended.value.code, told.count("\n")) == (2, 1)
    return told


@pytest.mark.parametrize(
    ("main", "arguments", "words"),
    [
        (core.main, ["--waiting=x"], "argument --waiting: write whole numbers from 1 to 1000000, several by comma"),
        (core.main, ["--waiting=10000,"], "argument --waiting: write whole numbers from 1 to 1000000"),
        (core.main, ["--waiting=0"], "argument --waiting: write whole numbers from 1 to 1000000"),
        (core.main, ["--waiting=399"], "argument --waiting: twice 200 releases end 400 jobs; ask for at least so many"),
        (core.main, ["--gpus=-8"], "argument --gpus: write whole numbers from 192 to 100000"),
        (core.main, ["--gpus=191"], "argument --gpus: write whole numbers from 192 to 100000"),
        (core.main, ["--releases=1.5"], "argument --releases: write a whole number from 1 to 100000, not '1.5'"),
        (core.main, ["--release"], "argument --releases: expected one argument"),
        (core.main, ["more"], "unrecognized arguments: more"),
        (embedded.main, ["--jobs=0"], "argument --jobs: write a whole number from 1 to 10000, not '0'"),
        (merge.main, ["--mb=0"], "argument --mb: write a whole number from 1 to 1000000"),
        (merge.main, ["--models=1"], "argument --models: write a whole number from 2 to 64"),
        (merge.main, ["--rounds=0"], "argument --rounds: write a whole number from 1 to 1000"),
        (merge.main, ["--threads=0"], "argument --threads: write a whole number from 1 to 1024"),
        (merge.main, ["--directory=gone"], "argument --directory: there is no directory 'gone'; name one"),
        (merge.main, ["--mergekit=gone"], "argument --mergekit: there is no program 'gone'; give the path of one"),
        (packing.main, [], "the following arguments are required: --traces"),
        (packing.main, ["--traces=gone"], "argument --traces: there is no directory 'gone'; name one"),
        (policy.main, ["--traces="], "argument --traces: there is no directory ''; name one"),
        (policy.main, ["--traces=.", "--trace=mars"], "argument --trace: invalid choice: 'mars'"),
        (policy.main, ["--traces=.", "--restore=58,x"], "argument --restore: write whole numbers from 0 to 86400"),
        (policy.main, ["--traces=.", "--restore=-1"], "argument --restore: write whole numbers from 0 to 86400"),
        (policy.main, ["--traces=.", "--jobs=-1"], "argument --jobs: write a whole number from 1 to 10000000"),
        (policy.main, ["--traces=.", "--reference=lifo"], "argument --reference: invalid choice: 'lifo'"),
        (policy.main, ["--traces=.", "--policy=gone"], "--policy: gone can't be read (No such file or directory)"),
        (policy.main, ["--traces=.", "--trace=openb"], "--traces: openb_nodes.csv.gz can't be read (No such file"),
        (policy.main, ["--traces=.", "--trace=venus"], "--traces: venus_dev_jobs.csv.gz can't be read (No such file"),
    ],
)
def test_a_wrong_argument_is_refused_in_one_line_with_what_to_write(main, arguments, words, capsys):
    assert words in said(main, *arguments, capsys=capsys)


def test_a_policy_that_can_not_be_is_refused_in_one_line(tmp_path, capsys):
    path = tmp_path / "policy.json"
    path.write_text('{"half_life_s": -1}')
    told = said(policy.main, f"--traces={tmp_path}", f"--policy={path}", capsys=capsys)
    assert "--policy: half_life_s must be a number from 0 to" in told


def test_a_policy_without_the_levels_of_a_trace_is_refused_in_one_line(tmp_path, capsys):
    packed(tmp_path / "venus_dev_jobs.csv.gz", JOBS + "a,0,1,1\n")
    path = tmp_path / "policy.json"
    path.write_text('{"queues": {"merge": {"levels": {"Normal": 2}}}, "preemption": []}')
    told = said(policy.main, f"--traces={tmp_path}", "--trace=venus", f"--policy={path}", capsys=capsys)
    assert "--policy has no level 'Critical' in queues.merge.levels" in told


def packed(path: Path, text: str) -> None:
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("a,0,1,two\n", "--traces: venus_dev_jobs.csv.gz, line 2, column gpus: is 'two'"),
        ("a,0,0,1\n", "--traces: venus_dev_jobs.csv.gz has no job with gpus and duration_s above 0"),
    ],
)
def test_a_trace_that_can_not_be_read_is_refused_in_one_line(tmp_path, rows, words, capsys):
    packed(tmp_path / "venus_dev_jobs.csv.gz", JOBS + rows)
    assert words in said(policy.main, f"--traces={tmp_path}", "--trace=venus", capsys=capsys)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("a,0,1,-1\n", "openb_default_jobs.csv.gz, line 2, column gpus: is '-1'; write a whole number from 0"),
        ("a,0,1,0\n", "openb_default_jobs.csv.gz has no pod that asks for a GPU"),
    ],
)
def test_pods_that_can_not_be_read_are_refused_in_one_line(tmp_path, rows, words, capsys):
    packed(tmp_path / "openb_nodes.csv.gz", "node,gpus\nn,8\n")
    packed(tmp_path / "openb_default_jobs.csv.gz", JOBS + rows)
    assert words in said(packing.main, f"--traces={tmp_path}", capsys=capsys)


def test_a_trace_of_one_short_job_is_played(tmp_path, capsys):
    packed(tmp_path / "venus_dev_jobs.csv.gz", JOBS + "a,0,1,1\n")
    policy.main([f"--traces={tmp_path}", "--trace=venus", "--restore=60", "--jobs=1"])
    assert "8x72: 1 jobs" in capsys.readouterr().out


def test_the_smallest_queue_that_core_accepts_is_measured():
    found = core.measure(core.Case(6, core.LEAST_GPUS, 1))
    assert (len(found.release_s), len(found.explained_s)) == (1, 1)
