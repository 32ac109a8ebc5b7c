"""How is a node named in a sentence?"""

from __future__ import annotations


def named(node: str) -> str:
    """``node n1``; only ``node-1`` of one whose own name says already that it is one."""
    return node if "node" in node.lower() else f"node {node}"
