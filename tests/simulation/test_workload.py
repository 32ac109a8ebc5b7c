"""Traces become jobs, and what is said when a file is wrong."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from scheduling.simulation.table import TableError
from scheduling.simulation.workload import COLUMNS, ONE_PROJECT, REQUIRED, TraceJob, read_trace

DATA = Path(__file__).parent.parent / "data"
HEADER = "job_id,submit_s,duration_s,gpus,nodes,gpus_per_node,shape,gpu_type,gpu_mem_gb,user,project,req_walltime_s"


def trace(folder: Path, *rows: str, header: str = HEADER):
    path = folder / "jobs.csv"
    path.write_text("\n".join((header, *rows)) + "\n")
    return read_trace(path)


def job(folder: Path, row: str) -> TraceJob:
    return trace(folder, row).jobs[0]


def test_a_plain_excerpt_of_philly_is_read():
    found = read_trace(DATA / "philly_excerpt_jobs.csv")
    assert (len(found.jobs), len({each.project for each in found.jobs})) == (120, 6)


def test_a_packed_excerpt_of_venus_is_read_with_its_uneven_jobs():
    uneven = [each for each in read_trace(DATA / "venus_excerpt_jobs.csv.gz").jobs if each.remainder]
    assert {(each.nodes, each.gpus_per_node, each.remainder) for each in uneven} == {(1, 8, 4)}


def test_jobs_come_by_submission_and_then_by_id(tmp_path):
    found = trace(tmp_path, "b,5,1,1,,,,,,,,", "c,2,1,1,,,,,,,,", "a,5,1,1,,,,,,,,")
    assert [each.id for each in found.jobs] == ["c", "a", "b"]


def test_the_rows_left_out_are_counted_by_what_they_lack(tmp_path):
    found = trace(tmp_path, "a,0,,0,,,,,,,,", "b,0,0,1,,,,,,,,", "c,0,-1,1,,,,,,,,", "z,0,1,1,,,,,,,,").left_out
    assert (found.no_gpus, found.no_time) == (1, 2)


def test_the_nodes_of_a_derived_shape_may_be_told_when_they_are_those_it_takes(tmp_path):
    assert job(tmp_path, "a,0,1,12,2,,derived,,,,,").nodes == 1  # and one more for the other 4


@pytest.mark.parametrize("row", ["a,0,0,1", "a,0,-5,1", "a,0,1,0", "a,0,1,-1", "a,0,,1", "a,0,1,"])
def test_rows_without_gpus_or_run_time_are_left_out_and_counted(tmp_path, row):
    assert trace(tmp_path, row + ",,,,,,,,", "z,0,1,1,,,,,,,,").left_out.rows == 1


def test_a_requested_shape_is_nodes_times_gpus(tmp_path):
    found = job(tmp_path, "a,0,1,12,3,4,requested,,,,,")
    assert (found.nodes, found.gpus_per_node, found.remainder) == (3, 4, 0)


@pytest.mark.parametrize(("gpus", "layout"), [(5, (1, 5, 0)), (12, (1, 8, 4)), (16, (2, 8, 0)), (21, (2, 8, 5))])
def test_a_total_alone_is_packed_on_full_nodes_and_one_for_the_rest(tmp_path, gpus, layout):
    found = job(tmp_path, f"a,0,1,{gpus},,,derived,,,,,")
    assert (found.nodes, found.gpus_per_node, found.remainder) == layout


def test_instances_that_may_sit_anywhere_do(tmp_path):
    found = job(tmp_path, "a,0,1,30,,,any,,,,,")
    assert (found.span, found.gpus) == (True, 30)


def test_types_and_memory_are_kept(tmp_path):
    found = job(tmp_path, "a,0,1,1,,,,V100|T4,16,,,")
    assert (found.gpu_types, found.gpu_mem_gb) == (("V100", "T4"), 16)


def test_without_a_project_or_a_user_there_is_one_of_each(tmp_path):
    found = job(tmp_path, "a,0,1,1,,,,,,,,")
    assert (found.project, found.user) == (ONE_PROJECT, ONE_PROJECT)


def test_times_may_have_fractions_of_a_second(tmp_path):
    found = job(tmp_path, "a,0.25,1.5,1,,,,,,,,")
    assert (found.submit_ms, found.duration_ms) == (250, 1500)


NUMBER = "write a number from 0 to 2147483647"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("a,x,1,1,,,,,,,,", f"jobs.csv, line 2, column submit_s: is 'x'; {NUMBER}"),
        ("a,,1,1,,,,,,,,", "column submit_s: is empty; write when the job came"),
        ("a,-1,1,1,,,,,,,,", f"column submit_s: is '-1'; {NUMBER}"),
        ("a,0,nan,1,,,,,,,,", "column duration_s: is 'nan'; write a number of at most 2147483647"),
        ("a,0,inf,1,,,,,,,,", "column duration_s: is 'inf'; write a number of at most 2147483647"),
        ("a,0,1e300,1,,,,,,,,", "column duration_s: is '1e300'; write a number of at most 2147483647"),
        ("a,0,1_0,1,,,,,,,,", "column duration_s: is '1_0'; write a number of at most"),
        ("a,0,\u0661,1,,,,,,,,", "column duration_s: is '\u0661'; write a number of at most"),
        ("a,0,1,two,,,,,,,,", "column gpus: is 'two'; write a whole number of at most 1000000"),
        ("a,0,1,1.5,,,,,,,,", "column gpus: is '1.5'; write a whole number of at most 1000000"),
        ("a,0,1,1000001,,,,,,,,", "column gpus: is '1000001'; write a whole number of at most 1000000"),
        (",0,1,1,,,,,,,,", "column job_id: is empty"),
        ("a,0,1,4,2,1,requested,,,,,", r"column gpus_per_node: times nodes is 2 \* 1 = 2, but gpus is 4"),
        ("a,0,1,4,2,,requested,,,,,", "column gpus_per_node: is empty; a requested shape needs"),
        ("a,0,1,4,,2,,,,,,", "column nodes: is empty, but gpus_per_node is 2; give both, or neither"),
        ("a,0,1,4,-2,-2,,,,,,", "column nodes: is '-2'; write a whole number from 0 to 1000000"),
        ("a,0,1,4,-2,,,,,,,", "column nodes: is '-2'; write a whole number from 0"),
        ("a,0,1,4,x,y,any,,,,,", "column nodes: is 'x'; write a whole number from 0"),
        ("a,0,1,4,0,,,,,,,", "column nodes: is 0, but gpus is 4; write 1 or more, or leave it empty"),
        ("a,0,1,4,0,4,requested,,,,,", "column nodes: is 0, but gpus is 4; write 1 or more"),
        ("a,0,1,4,1,0,,,,,,", "column gpus_per_node: is 0, but gpus is 4; write 1 or more"),
        ("a,0,1,4,2,,any,,,,,", "column nodes: is 2, but shape is any, whose GPUs sit anywhere; leave it empty"),
        ("a,0,1,4,,4,any,,,,,", "column gpus_per_node: is 4, but shape is any"),
        ("a,0,1,12,3,,,,,,,", "column nodes: is 3, but a derived shape packs 12 GPUs on nodes of 8, which takes 2"),
        ("a,0,1,4,,,odd,,,,,", "column shape: is 'odd'; write one of requested, derived, any"),
        ("a,0,1,1,,,,|,,,,", r"column gpu_type: is '\|'; write one type, or several like V100\|T4"),
        ("a,0,1,1,,,,,-3,,,", "column gpu_mem_gb: is '-3'; write a number from 0 to 1000000"),
        ("a,0,1,1,,,,,1000001,,,", "column gpu_mem_gb: is '1000001'; write a number from 0 to 1000000"),
        ("a,0,1,1,,,,,,,,-1", f"column req_walltime_s: is '-1'; {NUMBER}"),
        ("a,0,1,1,,,,,,,,soon", f"column req_walltime_s: is 'soon'; {NUMBER}"),
        ("a,0,1,1", "line 2: 4 cells where the header has 12"),
    ],
)
def test_a_wrong_row_is_refused_by_line_and_column_with_what_to_do(tmp_path, row, words):
    with pytest.raises(TableError, match=words):
        trace(tmp_path, row)


@pytest.mark.parametrize(
    ("column", "cell", "words"),
    [
        ("gpu_milli", "foo", "is 'foo'; write a number from 0 to 1000"),
        ("gpu_milli", "1001", "is '1001'; write a number from 0 to 1000"),
        ("cpus", "-1", f"is '-1'; {NUMBER}"),
        ("mem_gb", "lots", f"is 'lots'; {NUMBER}"),
    ],
)
def test_a_cell_that_nothing_here_depends_on_is_read_all_the_same(tmp_path, column, cell, words):
    with pytest.raises(TableError, match=f"line 2, column {column}: {words}"):
        trace(tmp_path, f"a,0,1,1,{cell}", header=f"job_id,submit_s,duration_s,gpus,{column}")


def test_a_row_that_would_be_left_out_is_refused_when_a_cell_of_it_can_not_be_read(tmp_path):
    with pytest.raises(TableError, match="column submit_s: is 'x'"):
        trace(tmp_path, "a,x,0,1,,,,,,,,")


def test_a_walltime_of_0_is_read_since_only_some_runs_need_one(tmp_path):
    assert job(tmp_path, "a,0,1,1,,,,,,,,0").walltime_s == 0


def test_an_id_that_comes_twice_is_refused_with_both_lines(tmp_path):
    with pytest.raises(TableError, match=r"line 3, column job_id: is 'a' again \(first on line 2\)"):
        trace(tmp_path, "a,0,1,1,,,,,,,,", "a,5,1,1,,,,,,,,")


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("job_id,submit_s,duration_s", "line 1, column gpus is missing; add it"),
        ("job_id,submit_s,duration_s,gpus,projct", "column 'projct' is unknown; did you mean project"),
        ("job_id,submit_s,duration_s,gpus,quux", "column 'quux' is unknown; remove it"),
        ("job_id,submit_s,duration_s,gpus,gpus", "column gpus is there twice"),
    ],
)
def test_a_wrong_header_is_refused_by_column(tmp_path, header, words):
    with pytest.raises(TableError, match=words):
        trace(tmp_path, "a,0,1,1,1"[: 2 * header.count(",") + 1], header=header)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty; its first line must name the columns"),
        (HEADER.encode() + b"\n", "has a header and no rows"),
        (HEADER.encode() + b"\na,0,0,1,,,,,,,,\n", "has no job with gpus and duration_s above 0"),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        (b"job_id\x00", "is not text, it has NUL characters"),
        (b"job_id,submit_s,duration_s,gpus\n'a,0,1,\"1\n", "line 2: not CSV .unexpected end of data.; mend this line"),
        (gzip.compress(b"hello", mtime=0)[:-9], "the gzip data is broken or cut off"),
        (gzip.compress(b"hello", mtime=0)[:-3], "the gzip data is broken or cut off"),
        (gzip.compress(b"hello", mtime=0)[:2], "the gzip data is broken or cut off"),
    ],
)
def test_a_file_that_holds_no_jobs_is_refused_by_name(tmp_path, content, words):
    path = tmp_path / "jobs.csv"
    path.write_bytes(content)
    with pytest.raises(TableError, match=words):
        read_trace(path)


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path):
    with pytest.raises(TableError, match=r"gone\.csv can't be read \(No such file"):
        read_trace(tmp_path / "gone.csv")


@pytest.mark.parametrize(("mark", "shown"), [(";", "';'"), ("\t", "'\\t'"), ("|", "'|'")])
def test_columns_that_something_else_than_commas_separates_are_refused_with_what_does(tmp_path, mark, shown):
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit_s,duration_s,gpus\na,0,1,1\n".replace(",", mark))
    told = rf"^jobs\.csv, line 1: the columns are separated by {re.escape(shown)}; separate them by commas$"
    with pytest.raises(TableError, match=told):
        read_trace(path)


@pytest.mark.parametrize(
    ("table", "faults"),
    [
        (
            "submit_s,projct,quux,user,user\nx,,,,\n",
            [
                "line 1, column 'projct' is unknown; did you mean project?",
                "line 1, column 'quux' is unknown; remove it.",
                "line 1, column user is there twice; remove one",
                "line 1, column job_id is missing; add it",
                "line 1, column duration_s is missing; add it",
                "line 1, column gpus is missing; add it",
                "line 2, column submit_s: is 'x'",
            ],
        ),
        (  # what is said of the cells is true whatever stands in the column that is not known
            "job_id,submit_s,duration_s,nodes,shape\na,0,1,0,wild\n,0,1,2,\n",
            [
                "line 1, column gpus is missing; add it",
                "line 2, column shape: is 'wild'",
                "line 2, column nodes: is 0; write 1 or more, or leave it empty",
                "line 3, column job_id: is empty",
            ],
        ),
        (
            "job_id,submit_s,duration_s,gpus,nodes,gpus_per_nod\na,0,1,4,2,2\nb,0,0,4,2,2\nc,0,1,x,2,2\n",
            [
                "line 1, column 'gpus_per_nod' is unknown; did you mean gpus_per_node?",
                "line 4, column gpus: is 'x'",
            ],
        ),
    ],
)
def test_all_that_is_wrong_with_header_and_cells_is_told_at_once_and_nothing_of_columns_that_are_not_there(
    tmp_path, table, faults
):
    path = tmp_path / "jobs.csv"
    path.write_text(table)
    with pytest.raises(TableError) as wrong:
        read_trace(path)
    said = str(wrong.value).splitlines()
    assert len(said) == len(faults)
    assert all(line.startswith(f"jobs.csv, {fault}") for line, fault in zip(said, faults, strict=True))


@pytest.mark.parametrize(
    ("header", "faults"),
    [
        (
            "foo,bar",
            ["'foo' is unknown; remove it.", f"'bar' is unknown; remove it. Known are {', '.join(COLUMNS)}"],
        ),
        (
            "id,submit,duration,gpu",
            [
                "'id' is unknown; remove it.",
                "'submit' is unknown; did you mean submit_s?",
                "'duration' is unknown; did you mean duration_s?",
                f"'gpu' is unknown; did you mean gpus? Known are {', '.join(COLUMNS)}",
            ],
        ),
    ],
)
def test_a_file_with_none_of_the_columns_is_told_all_of_its_header_and_nothing_of_its_rows(tmp_path, header, faults):
    path = tmp_path / "jobs.csv"
    path.write_text(f"{header}\nand,more\n")
    with pytest.raises(TableError) as wrong:
        read_trace(path)
    must = f"add it: {', '.join(REQUIRED)} must be there"
    missing = [f"{column} is missing; {must}" for column in REQUIRED]
    assert str(wrong.value).splitlines() == [f"jobs.csv, line 1, column {each}" for each in (*faults, *missing)]


HEAD = "job_id,submit_s,duration_s,gpus,shape\n"


def told(tmp_path, rows: str) -> list[str]:
    path = tmp_path / "t.csv"
    path.write_text(HEAD + rows)
    with pytest.raises(TableError) as wrong:
        read_trace(path)
    return str(wrong.value).split("\n")


def test_every_wrong_cell_is_told_with_its_line_and_column(tmp_path):
    found = told(tmp_path, "a,x,9,y,\na,0,9,1,\nb,0,9,1,\nb,0,9,1,\nc,0\n,0,9,1,\nd,0,9,1,odd\n")
    assert [line.split(": ")[0] for line in found] == [
        "t.csv, line 2, column submit_s",
        "t.csv, line 2, column gpus",
        "t.csv, line 3, column job_id",
        "t.csv, line 5, column job_id",
        "t.csv, line 6",
        "t.csv, line 7, column job_id",
        "t.csv, line 8, column shape",
    ]


def test_of_many_wrong_cells_the_first_are_told_and_how_many_more(tmp_path):
    found = told(tmp_path, "".join(f"{n},x,9,1,\n" for n in range(27)))
    assert (len(found), found[19].split(":")[0], found[-1]) == (21, "t.csv, line 21, column submit_s", "and 7 more")


def test_what_is_wrong_above_a_line_that_is_no_csv_is_told_with_it(tmp_path):
    found = told(tmp_path, 'a,x,9,1,\nb,0,9,1,"open\n')
    assert ("column submit_s" in found[0], "not CSV" in found[1]) == (True, True)


@pytest.mark.parametrize(
    ("row", "columns"),
    [
        ("a,x,1,1.5,", ["submit_s", "gpus", "job_id"]),
        (",,y,1,odd", ["duration_s", "job_id", "submit_s", "shape"]),
        ("a,x,1,1,odd", ["submit_s", "shape", "job_id"]),
        ("b,,1,x,", ["gpus", "submit_s"]),
        ("a,x,1,0,odd", ["submit_s"]),
        ("a,x,,1,", ["submit_s"]),
    ],
)
def test_all_that_is_wrong_with_a_row_is_told_with_its_id_that_was_there_before(tmp_path, row, columns):
    found = told(tmp_path, f"a,0,100,1,\n{row}\n")
    assert [line.split(": ")[0] for line in found] == [f"t.csv, line 3, column {column}" for column in columns]
    again = [line for line in found if line.endswith("is 'a' again (first on line 2); give each job its own id")]
    assert len(again) == (row[0] == "a" and "job_id" in columns)


def test_the_id_of_a_row_in_which_something_is_wrong_may_not_come_again_unless_that_is_no_job(tmp_path):
    found = told(tmp_path, "a,x,9,1,\na,0,9,1,\nb,x,9,0,\nb,0,9,1,\n")
    assert [line.split(": ")[0].removeprefix("t.csv, ") for line in found] == [
        "line 2, column submit_s",
        "line 3, column job_id",
        "line 4, column submit_s",
    ]


def test_nodes_that_do_not_make_the_gpus_are_told_beside_other_cells(tmp_path):
    with pytest.raises(TableError) as wrong:
        trace(tmp_path, "a,x,1,4,2,1,requested,,,,,", "b,0,1,4,0,y,odd,,,,,")
    assert [line.split(": ")[0].removeprefix("jobs.csv, ") for line in str(wrong.value).splitlines()] == [
        "line 2, column submit_s",
        "line 2, column gpus_per_node",
        "line 3, column shape",
        "line 3, column nodes",
        "line 3, column gpus_per_node",
    ]
