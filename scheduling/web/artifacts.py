"""What came out, and what was it made from?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from scheduling.services import artifact_deletion as deletion
from scheduling.services import filters, now
from scheduling.services.artifacts import KINDS, Refusal
from scheduling.store.queries import artifacts as queries
from scheduling.store.queries import called, pages
from scheduling.store.queries.access import Actor
from scheduling.store.queries.called import Called
from scheduling.store.queries.lineage import lineage
from scheduling.web.access import posted, signed_in
from scheduling.web.file_lists import part_of, unsafe_formats
from scheduling.web.lineage import made_in_words
from scheduling.web.wording import amount, size


@signed_in
def artifacts(request: HttpRequest, actor: Actor) -> HttpResponse:
    """The artifacts of one's projects, newest first, by kind, project and name."""
    wanted = {key: request.GET.get(key, "")[:200] for key in ("kind", "project", "q", "deleted", "corrupt")}
    after = request.GET.get("after", "")
    wrong = filters.wrong_of_artifacts(actor, wanted)
    kind, project, q = wanted["kind"], wanted["project"], wanted["q"]
    deleted, corrupt = wanted["deleted"] == "true", {"true": True, "false": False}.get(wanted["corrupt"])
    page = pages.Page((), "")
    if not wrong:
        page = pages.artifact_page(actor, kind=kind, project=project, q=q, after=after, deleted=deleted,
                                   corrupt=corrupt)  # fmt: skip
    given = {k: v for k, v in wanted.items() if v}
    context = {
        "rows": [{**row, "read_size": size(row["size"]), "unsafe": unsafe_formats(row["files"])} for row in page.rows],
        "following": urlencode({**given, "after": page.following}) if page.following else "",
        "wanted": wanted,
        "filtered": bool(given),
        "wrong": wrong,
        "kinds": KINDS,
        "projects": pages.project_names(actor),
        "sentence": _sentence(
            len(page.rows),
            "deleted artifact" if deleted else "artifact",
            more=bool(page.following),
            filtered=bool(given),
        ),
    }
    return render(request, "artifacts.html", context, status=400 if wrong else 200)


CALLED = {
    "model": "A model", "checkpoint": "A checkpoint", "dataset": "A data set", "eval": "An evaluation",
    "output": "An output", "log": "A log",
}  # fmt: skip


@signed_in
def artifact(request: HttpRequest, actor: Actor, artifact_id: UUID) -> HttpResponse:
    """Its files with their sha256, what it was made from and what was made from it."""
    row = queries.one(actor, str(artifact_id))
    if row is None:
        raise Http404("there is no such artifact in your projects")
    shown = queries.as_dict(row)
    family = lineage(actor, row, depth=1)
    known = {n["id"]: n for n in family["nodes"]}
    links = {
        "parents": [{**known[e["parent"]], "role": e["role"]} for e in family["edges"] if e["child"] == shown["id"]],
        "children": [{**known[e["child"]], "role": e["role"]} for e in family["edges"] if e["parent"] == shown["id"]],
    }
    made = f"{CALLED.get(shown['kind'], 'Files')} of {size(shown['size'])} in {amount(len(shown['files']), 'file')}"
    sentence = (
        f"{made}, made from {amount(len(links['parents']), 'parent')}." if links["parents"] else f"{made}, uploaded."
    )
    (node,) = (each for each in family["nodes"] if each["id"] == shown["id"])
    context = {
        "artifact": shown,
        "names": list(_names(row, node, actor)) if shown["also"] else [],
        "may_delete": deletion.may_delete(actor, row),
        "restorable": shown["deleted"] is not None and deletion.is_restorable(row),
        "at_stake": _at_stake(len(links["children"]), called.others(row)),
        "part": part_of(shown["files"], request.GET.get("page", "")),
        "about": list(about(shown["meta"])),
        "unsafe": unsafe_formats(shown["files"]),
        "hidden": family["hidden"],
        **links,
    }
    return render(request, "artifact.html", {**context, "sentence": sentence})


@posted
@signed_in
def act(request: HttpRequest, actor: Actor, artifact_id: UUID, verb: str) -> HttpResponse:
    """The artifact is deleted or restored, or loses one of its names, or a message says why not.

    The question of the page tells all its names, so that the answer is for all of them, if there are no more since.
    """
    if verb == "restore":
        done = deletion.restore(str(artifact_id), actor, now())
    else:
        name = request.POST.get("name", "")[:100] if verb == "unname" else ""
        told = request.POST.get("others", "")
        known = told.isdecimal() and int(told[:9]) == len(_others(actor, artifact_id))
        done = deletion.delete(str(artifact_id), actor, now(), everywhere=known and not name, name=name)
    if done is None:
        raise Http404("there is no such artifact in your projects")
    if isinstance(done, Refusal):
        messages.error(request, f"{done.message[:1].upper()}{done.message[1:]}; nothing was changed.")
    return redirect("artifact", artifact_id=artifact_id)


def _others(actor: Actor, artifact_id: UUID) -> list[Called]:
    row = queries.one(actor, str(artifact_id))
    return [] if row is None else called.others(row)


def _names(row: Any, node: Mapping[str, Any], actor: Actor) -> Iterator[dict[str, Any]]:
    """Each name of the artifact, the first one first: whose it is, and by which job and recipe it came to be."""
    makings = [made for made in (node["made_by"], *node["also_made_by"]) if made is not None]
    by_key = {(made["output"], made["job"]): made for made in makings}
    for each in (called.first(row), *called.others(row)):
        made = by_key.get((each.name, str(each.job)))
        own = row.deleted_at is None and deletion.is_own(actor, each)
        yield {"name": each.name, "user": each.user, "at": each.at, "made_by": made, "made": made_in_words(made),
               "own": own}  # fmt: skip


def _at_stake(children: int, others: Sequence[Called]) -> str:
    """What goes with a deletion, and what does not."""
    also = f"The same bytes are also {deletion.names_in_words(others)}, and go there too. " if others else ""
    stay = f", and so does what was made from it ({amount(children, 'artifact')})" if children else ""
    hours = amount(deletion.kept_hours(), "hour")
    return (
        f"{also}It can't be downloaded or worked on then. Its bytes are kept for {hours} more, in which it can be "
        f"restored; its record stays{stay}."
    )


def about(meta: Mapping[str, Any], within: str = "") -> Iterator[dict[str, Any]]:
    """What is on record of an artifact, a row a value: inner names follow the outer one, anything deeper is JSON."""
    for key, value in meta.items():
        word = f"{within}{key}".replace("_", " ")
        if isinstance(value, Mapping) and value and not within:
            yield from about(value, f"{word}, ")
        elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
            yield {"word": word, "value": value, "code": False}
        else:
            yield {"word": word, "value": json.dumps(value, ensure_ascii=False), "code": True}


def _sentence(count: int, what: str, *, more: bool, filtered: bool) -> str:
    if not count:
        return f"No {what} matches." if filtered else "There are no artifacts yet."
    found = f"{amount(count, what)}{' match' if filtered and count > 1 else ''}, newest first."
    return f"The newest {found}" if more else found
