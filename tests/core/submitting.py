"""Submitting a request to a small pool as a researcher: what comes back, in the forms that tests ask for."""

from __future__ import annotations

from collections.abc import Mapping

from scheduling.core.policy import DEFAULT_POLICY, Policy
from scheduling.core.pool import Pool
from scheduling.core.request import FieldError, Rights, Submission, validate

from .build import gpus, pool

NOW_MS = 1_893_456_000_000  # 2030-01-01T00:00:00Z

KINDS = {"merge": "merge", "evaluate": "eval", "infer": "inference"}
RESEARCHER = Rights(levels_cap=3, may_critical=False, projects=("alpha",))
RELEASER = Rights(levels_cap=4, may_critical=True, may_unpreemptible=True, projects=("alpha", "beta"))
PLAIN = {"kind": "merge", "project": "alpha", "gpu_count": 2}
BOARDS = pool(gpus("n0", 4, group="g0", memory="80GB"), gpus("n1", 8, memory="24GB"))


def checked(
    raw: Mapping[str, object] | None = None,
    *,
    the_pool: Pool = BOARDS,
    rights: Rights = RESEARCHER,
    over_nodes: bool = True,
    policy: Policy = DEFAULT_POLICY,
    **more,
) -> tuple[Submission | None, tuple[FieldError, ...]]:
    body = {**PLAIN, **(raw or {}), **more}
    return validate(
        body, policy=policy, pool=the_pool, rights=rights, kinds=KINDS, now_ms=NOW_MS, over_nodes=over_nodes
    )


def accepted(raw: Mapping[str, object] | None = None, **more) -> Submission:
    submission, errors = checked(raw, **more)
    assert errors == ()
    assert submission is not None
    return submission


def refused(raw: Mapping[str, object] | None = None, **more) -> list[tuple[str, str]]:
    """Field and code of every error; nothing comes back with them."""
    submission, errors = checked(raw, **more)
    assert submission is None
    return [(error.field, error.code) for error in errors]


def the_error(raw: Mapping[str, object] | None = None, **more) -> FieldError:
    """The one error there is."""
    submission, errors = checked(raw, **more)
    assert submission is None
    (error,) = errors
    return error
