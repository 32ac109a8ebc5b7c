"""What has a job made? Its artifacts with their files, or only with how many they are."""

from __future__ import annotations

from typing import Any

from django.db.models import F, Func, IntegerField, QuerySet
from django.db.models.expressions import Combinable

from scheduling.models import JobOutput
from scheduling.store.queries.artifacts import file_rows

# Of an artifact's columns these may be large.
LARGE = ("files", "tensors", "meta", "unsafe")


class _Length(Func):
    """How many elements a list in JSON has."""

    function = "json_array_length"
    output_field = IntegerField()

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """There the column is of the type jsonb."""
        return self.as_sql(compiler, connection, function="jsonb_array_length", **context)


def outputs(*, listed: bool) -> QuerySet[JobOutput]:
    """The outputs of jobs for :func:`told`; unless ``listed`` their files are counted where they lie and not read."""
    aside = [f"artifact__{name}" for name in LARGE if not (listed and name in ("files", "unsafe"))]
    rows = JobOutput.objects.select_related("artifact").defer(*aside)
    count: Combinable = _Length(F("artifact__files"))
    return rows if listed else rows.annotate(of_files=count)


def told(output: JobOutput) -> dict[str, Any]:
    """The artifact in the shape of the REST contract; of files that were only counted ``of_files``, and an empty
    list."""
    made = output.artifact
    row = {
        "id": str(output.artifact_id), "name": output.name, "kind": made.kind, "size": made.size,
        "sha256": made.digest.removeprefix("sha256:"),
        "deleted": made.deleted_at is not None or output.given_up_at is not None,
    }  # fmt: skip
    count = getattr(output, "of_files", None)
    if count is not None:
        return {**row, "files": [], "of_files": count}
    return {**row, "files": file_rows(made)}
