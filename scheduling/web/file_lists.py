"""Which of an artifact's many files does a page show at once, and how are they told?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.paginator import Paginator

from scheduling.web.wording import amount, size

FIRST = 20  # lines under "What came out", which stands above everything else of a job
AT_ONCE = 200  # lines of an artifact's own page


def files(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The files of an artifact with their sizes as people read them."""
    return [{**f, "read_size": size(f["size"])} for f in rows]


def unsafe_formats(rows: Sequence[Mapping[str, Any]]) -> str:
    """In what formats files of an artifact can run code when they are loaded, in words; "" for none."""
    return ", ".join(sorted({f["unsafe"] for f in rows if f["unsafe"]}))


def came_out(artifacts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The artifacts of a job, each with the ``files`` that its page has room for, ``FIRST`` of all together, and how
    many there are, ``told`` in words; ``cut`` says that the artifact's own page has more."""
    room, told = FIRST, []
    for each in artifacts:
        first = files(each["files"][:room])
        room -= len(first)
        more = {"told": amount(len(each["files"]), "file"), "cut": len(first) < len(each["files"])}
        told.append({**each, "read_size": size(each["size"]), "files": first, **more})
    return told


def part_of(rows: Sequence[Mapping[str, Any]], wanted: str) -> dict[str, Any]:
    """The page ``wanted`` of the files, from 1: ``files``, which they are of how many (``told``), and the pages
    ``before`` and ``after`` it; ``cut`` where there is more than one.

    What is no number of a page is the first or the last one.
    """
    page = Paginator(rows, AT_ONCE).get_page(wanted)
    return {
        "files": files(list(page.object_list)),
        "told": f"{page.start_index():,} to {page.end_index():,} of {amount(len(rows), 'file')}",
        "cut": page.has_other_pages(),
        "before": page.previous_page_number() if page.has_previous() else None,
        "after": page.next_page_number() if page.has_next() else None,
    }
