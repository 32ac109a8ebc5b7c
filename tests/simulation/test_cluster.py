"""Clusters made of a short text or of a file of nodes, and what is said when they can't be made."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from scheduling.core.units import parse_memory
from scheduling.simulation.cluster import HOW, UNLIMITED_MIB, ClusterError, cluster, pool_of_file, says_types
from scheduling.simulation.table import TableError

OPENB = Path(__file__).parent.parent / "data" / "openb_excerpt_nodes.csv"


def test_a_text_of_two_parts_makes_nodes_of_two_sizes():
    sizes = Counter(len(gpus) for gpus in cluster("8x3, 2x4").pool.by_node.values())
    assert sizes == {8: 3, 2: 4}


def test_the_nodes_of_a_text_have_one_rack_one_nvlink_group_each_and_memory_without_limit():
    pool = cluster("4x2").pool
    assert {node.rack_id for node in pool.nodes} == {"rack"}
    assert [len(gpus) for gpus in pool.by_group.values()] == [4, 4]
    assert {gpu.memory_mib for gpu in pool.gpus} == {UNLIMITED_MIB}


def test_a_part_may_state_the_type_of_its_gpus():
    assert Counter(gpu.model for gpu in cluster("80x1:zewura,24x2:zegox").pool.gpus) == {"zewura": 80, "zegox": 48}


def test_only_a_cluster_that_states_types_can_hold_a_wish_for_one_against_anybody():
    assert (says_types(cluster("8x1").pool), says_types(cluster("8x1,8x1:A100").pool)) == (False, True)


@pytest.mark.parametrize("spec", ["8x", "8", "8x2;2x4", "8x2,", "8x2,x", "8x2:", "8X2", "８x2", "nodes.csv"])
def test_a_text_that_is_neither_a_cluster_nor_a_file_is_refused_with_how_to_write_it(spec):
    with pytest.raises(ClusterError, match="write GPUSxNODES like 8x72"):
        cluster(spec)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("0x4", "^--nodes: '0x4' asks for 0 GPUs on each node; ask for 1 to 1024$"),
        ("8x2,8x0", "^--nodes: '8x0' asks for 0 nodes; ask for 1 to 100000$"),
        ("1025x1", "asks for 1025 GPUs on each node; ask for 1 to 1024"),
        ("8x100001", "asks for 100001 nodes; ask for 1 to 100000"),
    ],
)
def test_a_part_out_of_range_is_refused_with_the_number_and_its_range(spec, words):
    with pytest.raises(ClusterError, match=words):
        cluster(spec)


@pytest.mark.parametrize(
    ("spec", "lines"),
    [
        (
            "8x2,-1x2,8x,foo,0x1,8x0",
            [
                f"--nodes: '8x', 'foo' can't be read: {HOW}",
                "--nodes: '-1x2' asks for -1 GPUs on each node; ask for 1 to 1024",
                "--nodes: '0x1' asks for 0 GPUs on each node; ask for 1 to 1024",
                "--nodes: '8x0' asks for 0 nodes; ask for 1 to 100000",
            ],
        ),
        ("8x2,a,b", [f"--nodes: 'a', 'b' can't be read: {HOW}"]),
        ("a,b,8x2", [f"--nodes: 'a', 'b' can't be read: {HOW}"]),
        ("a,b", [f"--nodes: 'a,b' is neither a file nor a cluster: {HOW}; or name a CSV file of nodes"]),
        (
            "0x0,1024x1000,x",
            [
                f"--nodes: 'x' can't be read: {HOW}",
                "--nodes: '0x0' asks for 0 GPUs on each node; ask for 1 to 1024",
                "--nodes: '0x0' asks for 0 nodes; ask for 1 to 100000",
                "--nodes: '0x0,1024x1000,x' has more than 200000 GPUs in all: ask for fewer nodes",
            ],
        ),
    ],
)
def test_all_that_is_wrong_with_a_text_is_told_at_once_and_how_to_write_it_once(spec, lines):
    with pytest.raises(ClusterError) as wrong:
        cluster(spec)
    assert str(wrong.value).splitlines() == lines


def test_of_a_text_with_very_much_wrong_the_first_parts_are_told_and_how_many_more():
    spec = ",".join(["8x2", *(f"p{place}" for place in range(30)), *(f"0x{place + 1}" for place in range(30))])
    with pytest.raises(ClusterError) as wrong:
        cluster(spec)
    lines = str(wrong.value).splitlines()
    assert lines[0].startswith("--nodes: 'p0', 'p1', ")
    assert " 'p19' and 10 more can't be read" in lines[0]
    assert (len(lines), lines[-1]) == (21, "and 11 more")


def test_columns_and_nodes_that_change_nothing_are_told(tmp_path):
    path = written(tmp_path, "node,gpus,cpus,mem_gb", "n,2,64,", "m,0,64,")
    assert cluster(str(path)).idle == (
        "the column cpus of the nodes is not used: only GPUs are counted",
        "1 node has 0 gpus: no job can run there",
    )


def test_a_file_of_nodes_gives_types_memory_and_sizes():
    pool = pool_of_file(OPENB)
    first = pool.by_node["ob0000"]
    assert (len(first), first[0].model, first[0].memory_mib) == (2, "P100", parse_memory(16))


def test_a_node_of_unknown_memory_has_no_limit(tmp_path):
    assert pool_of_file(written(tmp_path, "node,gpus", "n,1")).gpus[0].memory_mib == UNLIMITED_MIB


def test_the_racks_and_groups_of_a_file_are_kept(tmp_path):
    pool = pool_of_file(written(tmp_path, "node,gpus,rack,nvlink_group", "n,2,r7,g3"))
    assert (pool.nodes[0].rack_id, set(pool.by_group)) == ("r7", {"g3"})


def written(folder: Path, *lines: str) -> Path:
    path = folder / "nodes.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["node,gpus", ",4"], "line 2, column node: is empty"),
        (["node,gpus", "a,4", "a,4"], "line 3, column node: names 'a' again .first on line 2."),
        (["node,gpus", "a,0"], "no node with GPUs"),
        (["node,gpus", "a,2000"], "line 2, column gpus: is '2000'; write a whole number from 0 to 1024"),
        (["node,gpus", "a,-1"], "line 2, column gpus: is '-1'; write a whole number from 0 to 1024"),
        (["node,gpus", "a,4.5"], "line 2, column gpus: is '4.5'; write a whole number from 0 to 1024"),
        (["node,gpus", "a,"], "line 2, column gpus: is empty; write a whole number from 0 to 1024"),
        (["node,gpus,gpu_mem_gb", "a,1,1000001"], "gpu_mem_gb: is '1000001'; write a number of at most 1000000"),
        (["node,gpus,cpus", "a,1,many"], "line 2, column cpus: is 'many'; write a number from 0 to 2147483647"),
        (["node,gpus,mem_gb", "a,1,-1"], "line 2, column mem_gb: is '-1'; write a number from 0 to 2147483647"),
        (["node,gpus,gpu_mem_gb", "a,1,-2"], "column gpu_mem_gb: is '-2'; write more than 0"),
        (["node,racks,gpus", "a,r,1"], "column 'racks' is unknown; did you mean rack"),
        (["gpus", "1"], "column node is missing"),
    ],
)
def test_a_wrong_file_of_nodes_is_refused_by_line_and_column(tmp_path, lines, words):
    with pytest.raises(TableError, match=words):
        pool_of_file(written(tmp_path, *lines))


def test_all_that_is_wrong_with_header_and_cells_of_nodes_is_told_at_once(tmp_path):
    path = tmp_path / "nodes.csv"
    path.write_text("nod,gpus,cpus,cpus\na,x,1,1\na,4,many,1\n")
    with pytest.raises(TableError) as wrong:
        pool_of_file(path)
    assert [line.split("; ")[0] for line in str(wrong.value).splitlines()] == [
        "nodes.csv, line 1, column 'nod' is unknown",
        "nodes.csv, line 1, column cpus is there twice",
        "nodes.csv, line 1, column node is missing",
        "nodes.csv, line 2, column gpus: is 'x'",
    ]


def test_more_gpus_than_any_cluster_has_are_refused_with_the_limit():
    with pytest.raises(ClusterError, match="more than 200000 GPUs in all"):
        cluster("1024x100000")


def test_a_file_of_more_gpus_than_any_cluster_has_is_refused_at_the_line(tmp_path):
    lines = [f"n{place},1024" for place in range(196)]
    with pytest.raises(TableError, match="line 197, column gpus: makes more than 200000 GPUs in all; leave nodes out"):
        pool_of_file(written(tmp_path, "node,gpus", *lines))


def test_more_gpus_in_all_than_may_be_are_told_once_beside_what_is_wrong_above_and_below(tmp_path):
    lines = ["x,two", *(f"n{place},1024" for place in range(200)), "y,two"]
    with pytest.raises(TableError) as wrong:
        pool_of_file(written(tmp_path, "node,gpus", *lines))
    found = [line.split(", ", 1)[1].split(":")[0] for line in str(wrong.value).splitlines()]
    assert found == ["line 2, column gpus", "line 198, column gpus", "line 203, column gpus"]


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b"])
def test_a_name_that_no_file_can_have_is_refused_and_not_said_back_whole(name):
    with pytest.raises(ClusterError, match=r"is neither a file nor a cluster: write GPUSxNODES") as refused:
        cluster(name)
    assert len(str(refused.value)) < 300


def test_every_wrong_cell_of_a_file_of_nodes_is_told_at_once(tmp_path):
    lines = ["node,gpus,gpu_mem_gb,cpus", "n1,two,80,8", ",1025,0,-1", "n1,4,80,8", "n2,4"]
    path = tmp_path / "nodes.csv"
    path.write_text("\n".join(lines))
    with pytest.raises(TableError) as refused:
        pool_of_file(path)
    told = [line.removeprefix("nodes.csv, ") for line in str(refused.value).splitlines()]
    assert [words.partition(":")[0] for words in told] == [
        "line 2, column gpus", "line 3, column node", "line 3, column gpus", "line 3, column gpu_mem_gb",
        "line 3, column cpus", "line 4, column node", "line 5",
    ]  # fmt: skip
    assert told[5] == "line 4, column node: names 'n1' again (first on line 2); give every node its own name"
