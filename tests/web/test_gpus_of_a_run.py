"""Which GPUs an attempt has on a node, each with the NVLink group that it is in."""

from __future__ import annotations

import pytest

from scheduling.web.job import gpus_on


def gpu(index: int, group: str | None = None, node: str = "n1") -> dict:
    return {"node": node, "index": index, "nvlink_group_id": group}


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        (
            [gpu(0, "g0"), gpu(1, "g0"), gpu(2, "g1"), gpu(3, "g1")],
            "GPU 0, GPU 1 (NVLink g0), GPU 2, GPU 3 (NVLink g1)",
        ),
        ([gpu(0, "g0"), gpu(1, "g0")], "GPU 0, GPU 1 (NVLink g0)"),
        ([gpu(0), gpu(1)], "GPU 0, GPU 1"),
        ([gpu(0, "g0"), gpu(4)], "GPU 0 (NVLink g0), GPU 4"),
        ([gpu(0, "g0"), gpu(0, "h0", node="n2")], "GPU 0 (NVLink g0)"),
        ([], ""),
    ],
)
def test_each_gpu_is_named_with_its_own_group(gpus, words):
    assert gpus_on("n1", gpus) == words
