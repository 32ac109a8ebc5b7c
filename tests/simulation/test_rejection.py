"""Why a job of a trace is rejected: a code, and a sentence with what the empty cluster has instead."""

from __future__ import annotations

import pytest

from scheduling.core.resources import AffinityTerm, ResourceRequest
from scheduling.simulation.cluster import pool_of_spec
from scheduling.simulation.rejection import rejection

TWO_BY_THREE = pool_of_spec("2x3:A100")
H100 = AffinityTerm("gpu_model", "In", ("H100",))


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        (
            ResourceRequest(3),
            "NO_NODE",
            "needs 3 GPUs in one node; the largest node has 2 that suit",
        ),
        (
            ResourceRequest(8, 4),
            "NO_CAPACITY",
            "needs 2 GPUs on each of 4 nodes; 3 nodes have 2 that suit",
        ),
        (
            ResourceRequest(7, allow_span=True),
            "NO_CAPACITY",
            "needs 7 GPUs anywhere; the cluster has 6 GPUs that suit",
        ),
        (
            ResourceRequest(1, affinity=(H100,)),
            "UNSATISFIABLE_RULE",
            "needs 1 GPU in one node, and not so many are where its rules hold (gpu_model=H100)",
        ),
        (
            ResourceRequest(1, gpu_memory_min_mib=1 << 41),
            "NO_SUCH_MEMORY",
            "needs 1 GPU with at least 2.30584e+09 GB in one node; the largest GPU has 1.15292e+09 GB",
        ),
    ],
)
def test_a_rejection_says_what_was_needed_and_what_there_is(asked, code, message):
    assert rejection(TWO_BY_THREE, asked) == (code, message)


def test_what_fits_the_empty_cluster_is_not_rejected():
    assert rejection(TWO_BY_THREE, ResourceRequest(6, 3)) is None
