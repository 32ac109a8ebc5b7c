"""``manage.py simulate``: the object it prints, the table, and its refusals. It needs no database."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from scheduling.management.commands.simulate import Command
from scheduling.simulation.report import NO_WINDOW

ROOT = Path(__file__).parent.parent.parent
PHILLY = ROOT / "tests" / "data" / "philly_excerpt_jobs.csv"
KEYS = [
    "jobs", "rejected", "mean_wait_s", "p50_wait_s", "p95_wait_s", "mean_jct_s", "p99_jct_s", "mean_bsld",
    "util_window", "makespan_s", "share_error", "critical_mean_wait_s", "preemptions", "wall_s",
]  # fmt: skip


def printed(*arguments: str, nodes: str = "8x2,2x4", jobs: Path = PHILLY) -> str:
    out = io.StringIO()
    call_command("simulate", f"--nodes={nodes}", f"--jobs={jobs}", *arguments, stdout=out)
    return out.getvalue()


def test_with_json_it_prints_one_object_with_the_figures_first():
    found = json.loads(printed("--json", "--classes=hash"))
    assert [key for key in found if key not in ("per_class", "details")] == KEYS


def test_jobs_and_rejected_add_up_to_the_trace():
    found = json.loads(printed("--json", nodes="4x4"))
    assert found["rejected"] > 0
    assert found["jobs"] + found["rejected"] == 120


def test_the_object_says_why_jobs_are_rejected_and_how_many():
    details = json.loads(printed("--json", nodes="4x4"))["details"]
    assert details["rejected_because"] == {"NO_NODE": 6}
    assert [each["code"] for each in details["rejected_first"]] == ["NO_NODE"] * 3


def test_the_table_names_the_first_rejected_jobs_with_the_sentence(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit_s,duration_s,gpus\n" + "".join(f"j{n},0,10,8\n" for n in range(5)) + "k,0,10,1\n")
    told = printed(nodes="4x1", jobs=path).split("rejected because\n")[1].splitlines()
    why = "needs 8 GPUs in one node; the largest node has 4 that suit"
    assert [line.split() for line in told[:1]] == [["NO_NODE", "5", "j0:", *why.split()]]
    assert [line.strip() for line in told[1:]] == [f"j1: {why}", f"j2: {why}", "and 2 more"]


def test_where_no_job_is_rejected_the_table_gives_no_reason():
    assert "rejected because" not in printed()


def test_the_jobs_that_run_beyond_their_walltime_are_told_beside_the_table_and_in_the_object(tmp_path):
    path, err = tmp_path / "jobs.csv", io.StringIO()
    path.write_text("job_id,submit_s,duration_s,gpus,req_walltime_s\na,0,100,1,50\nb,1,10,1,20\n")
    call_command("simulate", "--nodes=1x1", f"--jobs={path}", "--estimates=requested", stdout=io.StringIO(), stderr=err)
    note = (
        "1 job ran longer than req_walltime_s says: it runs on to its recorded end, "
        "where a live pool would end it at that limit"
    )
    found = json.loads(printed("--json", "--estimates=requested", nodes="1x1", jobs=path))
    assert (err.getvalue(), found["details"]["notes"], found["makespan_s"]) == (f"note: {note}\n", [note], 110)


def test_a_file_that_is_no_table_of_nodes_is_told_its_columns_and_those_that_are_missing():
    with pytest.raises(CommandError) as wrong:
        printed(nodes="README.md")
    assert [line.split("; ")[0] for line in str(wrong.value).splitlines()] == [
        "--nodes: README.md, line 1, column '# EMEP' is unknown",
        "README.md, line 1, column node is missing",
        "README.md, line 1, column gpus is missing",
    ]


@pytest.mark.parametrize("name", ["plain.csv", "--jobs.csv", "--jobs: x.csv"])
def test_what_is_wrong_with_the_jobs_names_the_argument_once(name, tmp_path):
    path = tmp_path / name
    path.write_text("job_id,submit_s,duration_s,gpus,zzz\na,0,1,1,1\n")
    with pytest.raises(CommandError) as wrong:
        printed(jobs=path)
    assert str(wrong.value).replace(name, "FILE").startswith("--jobs: FILE, line 1, column 'zzz' is unknown")


@pytest.mark.parametrize("walltime", ["", "0"])
def test_a_job_without_a_walltime_to_go_by_names_the_argument(walltime, tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text(f"job_id,submit_s,duration_s,gpus,req_walltime_s\na,0,1,1,{walltime}\n")
    with pytest.raises(CommandError, match=r"^--jobs: jobs\.csv, line 2, column req_walltime_s: is "):
        printed("--estimates=requested", jobs=path)


def test_where_all_jobs_come_at_once_there_is_no_window_and_a_note_says_so(tmp_path):
    path, err = tmp_path / "jobs.csv", io.StringIO()
    path.write_text("job_id,submit_s,duration_s,gpus\na,5,10,1\nb,5,10,1\n")
    out = io.StringIO()
    call_command("simulate", "--nodes=1x1", f"--jobs={path}", stdout=out, stderr=err)
    found = json.loads(printed("--json", nodes="1x1", jobs=path))
    line = next(line for line in out.getvalue().splitlines() if line.startswith("util_window"))
    assert (line.split()[1], found["util_window"], err.getvalue()) == ("n/a", 0.0, f"note: {NO_WINDOW}\n")
    assert found["details"]["notes"] == [NO_WINDOW]


def test_two_runs_happen_alike():
    digests = {json.loads(printed("--json", "--classes=hash"))["details"]["digest"] for _ in range(2)}
    assert len(digests) == 1


def test_hash_classes_give_figures_by_class():
    assert "High" in json.loads(printed("--json", "--classes=hash"))["per_class"]


def test_without_json_it_prints_a_table_for_people():
    assert "mean_wait_s" in printed()


def test_a_policy_file_changes_what_happens(tmp_path):
    path = tmp_path / "policy.json"
    path.write_text('{"backfill": {"reservations_per_level": 8}, "ledgers": ["project"], "in_flight": "off"}')
    tight = {"nodes": "8x2"}
    changed = json.loads(printed("--json", f"--policy={path}", **tight))["details"]["digest"]
    assert changed != json.loads(printed("--json", **tight))["details"]["digest"]


ALL_SAID = """\
job_id,submit_s,duration_s,gpus,gpu_type,gpu_mem_gb,gpu_milli,cpus,class,status,req_walltime_s,project
a,0,100,8,V100,16,,4,LS,ok,200,alpha
b,1,100,1,,,460,4,LS,ok,200,alpha
c,1,100,0,,,,4,LS,ok,200,alpha
d,1,,4,,,,4,LS,ok,200,alpha
"""


def test_the_table_says_how_many_rows_are_no_jobs_and_why(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text(ALL_SAID)
    line = next(line for line in printed(nodes="8x2", jobs=path).splitlines() if line.startswith("left_out"))
    assert line.split(maxsplit=2)[1:] == [
        "2",
        "rows of the trace that are no jobs: 1 without GPUs (gpus empty, 0 or less), 1 without run time (duration_s "
        "likewise)",
    ]


def test_what_of_the_input_changes_nothing_is_said_beside_the_table_and_in_the_object(tmp_path):
    jobs, policy = tmp_path / "jobs.csv", tmp_path / "policy.json"
    jobs.write_text(ALL_SAID)
    policy.write_text(json.dumps({"half_life_s": 604800, "project_weights": {"alhpa": 2},
                                  "queues": {"merge": {"grace_s": 4}}}))  # fmt: skip
    err = io.StringIO()
    call_command("simulate", "--nodes=8x2", f"--jobs={jobs}", f"--policy={policy}", stdout=io.StringIO(), stderr=err)
    notes = json.loads(printed("--json", f"--policy={policy}", nodes="8x2", jobs=jobs))["details"]["notes"]
    assert err.getvalue().splitlines() == [f"note: {note}" for note in notes]
    assert notes == [
        "1 job asks for a gpu_type, and the cluster states none: any GPU is taken for it; write types like "
        "8x10:A100, or name a file of nodes",
        "1 job asks for gpu_mem_gb, and the cluster states no memory: every GPU has enough; name a file of nodes with "
        "gpu_mem_gb",
        "1 job asks for a part of a GPU (gpu_milli below 1000): each takes a whole one",
        "the column class is not used: all jobs are Normal (--classes none)",
        "the columns cpus, status are not used: only GPUs are counted, and jobs run for duration_s",
        "the column req_walltime_s is not used: it is for --estimates requested",
        "half_life_s of the policy is 604800 already: it changes nothing",
        "project_weights of the policy names 'alhpa' (did you mean 'alpha'?), which is no project of the jobs: it "
        "changes nothing",
        "queues.merge.grace_s of the policy changes nothing here: evicted jobs save for --save-s",
    ]


def test_where_all_input_counts_nothing_is_noted():
    assert json.loads(printed("--json"))["details"]["notes"] == []


WRONG = [
    (["--estimates=guess"], "argument --estimates: invalid choice: 'guess' (choose from 'oracle', 'requested')"),
    (["--policy=gone.json"], "--policy: gone.json can't be read (No such file or directory); name a JSON file"),
    (["--policy="], "argument --policy: is empty; write the path of a file"),
    (["--restore-s=-1"], "argument --restore-s: write whole seconds from 0 to 86400, not '-1'"),
    (["--restore-s=" + "9" * 5000], "argument --restore-s: write whole seconds from 0 to 86400, not '999"),
    (["--save-s=1e3"], "argument --save-s: write whole seconds from 0 to 86400, not '1e3'"),
    (["--save-s"], "argument --save-s: expected one argument"),
    (["--classes=all"], "argument --classes: invalid choice: 'all' (choose from 'none', 'hash')"),
    (["--nodes=8by2"], "--nodes: '8by2' is neither a file nor a cluster: write GPUSxNODES like 8x72"),
    (["--nodes=8x-1"], "--nodes: '8x-1' asks for -1 nodes; ask for 1 to 100000"),
    (["--nodes=-8x1"], "asks for -8 GPUs on each node; ask for 1 to 1024"),
    (["--nodes=8x1000000000"], "asks for 1000000000 nodes; ask for 1 to 100000"),
    (["--nodes=8x56,2x99999999999"], "asks for 99999999999 nodes; ask for 1 to 100000"),
    (["--nodes=tests"], "--nodes: 'tests' is neither a file nor a cluster: write GPUSxNODES like 8x72"),
    (["--jobs=gone.csv"], "--jobs: gone.csv can't be read (No such file or directory); name a CSV file"),
    (["--jobs=tests"], "--jobs: tests can't be read (Is a directory); name a CSV file, plain or gzip"),
    (["--jobs="], "argument --jobs: is empty; write the path of a file"),
    (["--speed=2"], "unrecognized arguments: --speed=2"),
    (["more"], "unrecognized arguments: more"),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG)
def test_a_wrong_argument_is_one_line_that_names_it_and_what_to_write_with_status_2(arguments, words, capsys):
    usual = [each for each in ("--nodes=8x2", f"--jobs={PHILLY}") if each.split("=")[0] != arguments[0].split("=")[0]]
    with pytest.raises(SystemExit) as ended:
        Command().run_from_argv(["manage.py", "simulate", *usual, *arguments])
    told = capsys.readouterr().err
    assert words in told
    assert (ended.value.code, told.count("\n")) == (2, 1)


def test_all_that_is_wrong_is_told_at_once_a_line_each(tmp_path, capsys):
    policy = tmp_path / "policy.json"
    policy.write_text('{"half_life_s": -1, "zzz": 2}')
    sent = ["--nodes=8by2", "--jobs=gone.csv", f"--policy={policy}", "--classes=all", "--restore-s=-1", "--save-s=x"]
    with pytest.raises(SystemExit) as ended:
        Command().run_from_argv(["manage.py", "simulate", *sent])
    told = capsys.readouterr().err.removeprefix("CommandError: ").splitlines()
    see = "; see manage.py simulate --help"
    assert ended.value.code == 2
    assert told[:3] == [
        f"argument --classes: invalid choice: 'all' (choose from 'none', 'hash'){see}",
        f"argument --restore-s: write whole seconds from 0 to 86400, not '-1'{see}",
        f"argument --save-s: write whole seconds from 0 to 86400, not 'x'{see}",
    ]
    assert told[3].startswith("--nodes: '8by2' is neither a file nor a cluster")
    assert told[4].startswith("--policy: ")
    assert all(name in "".join(told[4:-1]) for name in ("half_life_s", "zzz"))
    assert told[-1].startswith("--jobs: gone.csv can't be read")


@pytest.mark.parametrize(
    ("twice", "named"),
    [
        (["--classes=none", "--classes=hash"], "--classes"),
        (["--classes", "hash", "--classes", "hash"], "--classes"),
        (["--estimates=oracle", "--estimates", "oracle"], "--estimates"),
        (["--save-s=1", "--save-s=x", "--save-s=2"], "--save-s"),
        (["--policy=a.json", "--policy=b.json"], "--policy"),
        (["--nodes=8x3"], "--nodes"),
        (["--jobs=gone.csv"], "--jobs"),
        (["-v1", "--verbosity=2"], "-v/--verbosity"),
    ],
)
def test_an_option_of_one_value_that_is_given_twice_is_refused_by_name(twice, named, capsys):
    with pytest.raises(SystemExit) as ended:
        Command().run_from_argv(["manage.py", "simulate", "--nodes=8x2", f"--jobs={PHILLY}", *twice])
    told = f"CommandError: argument {named}: is given more than once; give it once; see manage.py simulate --help"
    assert (ended.value.code, capsys.readouterr().err.splitlines()) == (2, [told])


def test_a_flag_that_is_given_twice_says_no_more_than_once():
    assert json.loads(printed("--json", "--json"))["jobs"] > 0


def test_a_missing_walltime_and_a_wrong_cell_are_told_beside_a_column_that_is_not_there(tmp_path, capsys):
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit_s,duration_s,req_walltime_s\na,0,10,\nb,x,10,5\nb,1,10,0\nc,2,10,9\n")
    with pytest.raises(SystemExit):
        Command().run_from_argv(["manage.py", "simulate", "--nodes=8x2", f"--jobs={path}", "--estimates=requested"])
    needs = "--estimates requested needs it for every job: write seconds above 0, or use --estimates oracle"
    assert capsys.readouterr().err.removeprefix("CommandError: --jobs: ").splitlines() == [
        "jobs.csv, line 1, column gpus is missing; add it: job_id, submit_s, duration_s, gpus must be there",
        f"jobs.csv, line 2, column req_walltime_s: is empty; {needs}",
        "jobs.csv, line 3, column submit_s: is 'x'; write a number from 0 to 2147483647",
        f"jobs.csv, line 4, column req_walltime_s: is 0; {needs}",
        "jobs.csv, line 4, column job_id: is 'b' again (first on line 3); give each job its own id",
    ]


def test_a_column_of_walltimes_that_is_not_there_is_told_once_and_only_where_they_are_used(tmp_path, capsys):
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit_s,duration_s\na,0,10\nb,1,10\n")
    for estimates, missing in (("requested", ["gpus", "req_walltime_s"]), ("oracle", ["gpus"])):
        with pytest.raises(SystemExit):
            Command().run_from_argv(
                ["manage.py", "simulate", "--nodes=8x2", f"--jobs={path}", f"--estimates={estimates}"]
            )
        told = capsys.readouterr().err.splitlines()
        assert [line.split(" is missing; ")[0].split(" ")[-1] for line in told] == missing


@pytest.mark.parametrize("other", ["--nodes=8by2", "--policy=gone.json", "--classes=all"])
def test_a_job_without_a_walltime_is_told_beside_another_fault(other, tmp_path, capsys):
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit_s,duration_s,gpus,req_walltime_s\na,0,1,1,\n")
    usual = [] if other.startswith("--nodes") else ["--nodes=8x2"]
    sent = [*usual, f"--jobs={path}", "--estimates=requested", other]
    with pytest.raises(SystemExit):
        Command().run_from_argv(["manage.py", "simulate", *sent])
    told = capsys.readouterr().err
    assert other.split("=")[0] in told
    assert "--jobs: jobs.csv, line 2, column req_walltime_s: is empty" in told


@pytest.mark.parametrize(
    ("sent", "first"),
    [
        (["--jobs=gone.csv"], ["the following arguments are required: --nodes"]),
        (["--nodes=8by2"], ["the following arguments are required: --jobs"]),
        (["--nodes=8by2", "--jobs=gone.csv", "--speed=2", "more"], ["unrecognized arguments: --speed=2 more"]),
        (["--nodes=8by2", "--jobs=gone.csv", "--class=hash"], ["unrecognized arguments: --class=hash"]),
        (["--nodes=8by2", "--jobs=gone.csv", "--save-s"], ["argument --save-s: expected one argument"]),
        (["--nodes", "--jobs=gone.csv"], ["argument --nodes: expected one argument"]),
        (
            ["--json=1", "--nodes=8by2", "-v9", "--jobs", "gone.csv"],
            [
                "argument --json: ignored explicit argument '1'",
                "argument -v/--verbosity: invalid choice: 9 (choose from 0, 1, 2, 3)",
            ],
        ),
        (
            ["--verbosity", "x", "--nodes=8by2", "--speed", "--restore-s"],
            [
                "argument -v/--verbosity: invalid int value: 'x'",
                "argument --restore-s: expected one argument",
                "unrecognized arguments: --speed",
                "the following arguments are required: --jobs",
            ],
        ),
    ],
)
def test_an_option_that_is_missing_unknown_or_without_a_value_is_told_beside_the_other_faults(sent, first, capsys):
    with pytest.raises(SystemExit) as ended:
        Command().run_from_argv(["manage.py", "simulate", *sent, "--classes=foo"])
    told = capsys.readouterr().err.removeprefix("CommandError: ").splitlines()
    choice = "argument --classes: invalid choice: 'foo' (choose from 'none', 'hash')"
    assert ended.value.code == 2
    assert told[: len(first) + 1] == [f"{why}; see manage.py simulate --help" for why in [*first, choice]]
    rest = [line.split()[0].rstrip(":") for line in told[len(first) + 1 :]]
    assert rest == [name for name, word in (("--nodes", "8by2"), ("--jobs", "gone.csv")) if word in " ".join(sent)]


def test_without_nodes_and_jobs_it_says_that_they_are_missing(capsys):
    with pytest.raises(SystemExit) as ended:
        Command().run_from_argv(["manage.py", "simulate"])
    told = capsys.readouterr().err
    assert "the following arguments are required: --nodes, --jobs; see manage.py simulate --help" in told
    assert (ended.value.code, told.count("\n")) == (2, 1)


@pytest.mark.parametrize("database", ["foo", "postgres://u:p@127.0.0.1:1/nobody"])
def test_it_runs_whatever_the_database_and_makes_no_file(database, tmp_path):
    """The data directory is not there before, and not after; nor is anything new where it runs."""
    env = {"DATABASE_URL": database, "EMEP_DATA_DIR": str(tmp_path / "data"), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-B", str(ROOT / "manage.py"), "simulate", "--nodes=8x2", f"--jobs={PHILLY}", "--json"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["jobs"] > 0
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_cluster_is_refused_with_how_to_write_one():
    with pytest.raises(CommandError, match="write GPUSxNODES like 8x72"):
        printed(nodes="8by2")


def test_a_missing_trace_is_refused_by_name():
    with pytest.raises(CommandError, match=r"gone\.csv can't be read"):
        printed(jobs=Path("gone.csv"))


def test_neither_django_nor_torch_is_needed_to_simulate():
    code = "import sys, scheduling.simulation.world; print('django' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("seed", ["1", "2"])
def test_the_same_happens_whatever_the_hash_seed(seed, tmp_path):
    code = (
        "from pathlib import Path; from scheduling.core.policy import DEFAULT_POLICY as P;"
        "from scheduling.simulation.cluster import cluster; from scheduling.simulation.queueing import queue_jobs;"
        "from scheduling.simulation.workload import read_trace; from scheduling.simulation.world import simulate;"
        f"jobs = queue_jobs(read_trace(Path({str(PHILLY)!r})), P, classes='hash');"
        "print(simulate(jobs, cluster('8x2,2x4').pool, P).digest())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == json.loads(printed("--json", "--classes=hash"))["details"]["digest"]
