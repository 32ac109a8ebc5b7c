"""The pipeline of the example of two domains is one that is accepted as it is printed."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
from django.conf import settings

from scheduling.models import Job
from scheduling.services import pipelines
from scheduling.services.sets import Made
from tests import builders as b

pytestmark = pytest.mark.django_db


def printed() -> dict[str, Any]:
    path = settings.BASE_DIR / "examples" / "two_domains" / "pipeline.py"
    spec = importlib.util.spec_from_file_location("pipeline", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.pipeline("two-domains", "alpha")


def test_all_of_its_jobs_wait_for_the_training() -> None:
    alice = b.people()["alice"]
    b.artifact(alice, "two-domains", {"train.py": b"x"}, kind="output")
    made = pipelines.submit(printed(), alice, b.NOON, key=None)
    assert isinstance(made, Made), made
    kinds = list(Job.objects.filter(member_of=made.set_id).values_list("kind", flat=True))
    assert {kind: kinds.count(kind) for kind in kinds} == {"command": 1, "merge": 8, "evaluate": 22}
    assert Job.objects.filter(member_of=made.set_id, awaits=0).get().name == "two-domains"
