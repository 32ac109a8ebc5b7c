"""Remembered worlds: what is put back is what the services build, and nothing is put back into a world begun."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.db import connection, transaction

from scheduling.models import Project
from tests import builders as b
from tests.remembered import BUILDERS, FILLED, Remembered, empty_all

pytestmark = pytest.mark.django_db


def found(build: Callable[[], Any]) -> tuple[dict[str, int], list[bytes]]:
    """How many rows of each model and which contents of files the builder leaves; all is taken back."""
    with transaction.atomic():
        build()
        rows = {model.__name__: model._default_manager.count() for model in apps.get_models() if model._meta.managed}
        files = sorted(path.read_bytes() for path in settings.ARTIFACT_DIR.rglob("*") if path.is_file())
        transaction.set_rollback(True)
    shutil.rmtree(settings.ARTIFACT_DIR, ignore_errors=True)
    return rows, files


@pytest.mark.parametrize("builder", BUILDERS, ids=lambda builder: builder.__name__)
def test_what_is_put_back_is_what_is_built(builder: Remembered[Any]):
    assert found(builder) == found(builder.build)


def test_a_world_is_put_back_with_the_ids_of_the_first():
    assert b.lab.memory is not None
    assert b.lab().models == b.lab.memory.result.models


def test_a_world_that_has_begun_is_built_upon():
    Project.objects.create(name="alpha", weight=7.0)
    b.people()
    assert dict(Project.objects.values_list("name", "weight")) == {"alpha": 7.0, "beta": 1.0}


def test_nobody_changes_what_the_next_test_gets():
    b.lab().models.clear()
    assert b.lab.memory is not None
    assert len(b.lab.memory.result.models) == 2


def test_what_was_committed_is_emptied_and_what_the_migrations_filled_stays():
    def rows(table: str) -> int:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM {connection.ops.quote_name(table)}")
            return cursor.fetchone()[0]

    filled = {table: rows(table) for table in FILLED}
    b.lab()
    empty_all()
    assert {table: rows(table) for table in connection.introspection.table_names() if rows(table)} == filled
