"""What is told of a number that can't be read is the largest that goes with the others, or nothing if none does."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.policy import Policy
from scheduling.core.pool import Pool
from scheduling.core.request import FieldError

from .submitting import checked
from .test_refusals_together import (
    BODIES,
    COUNTS,
    POLICIES,
    RULE,
    is_left_out,
    pools,
    reasons,
    with_limits,
    without_rules,
)

LARGEST = 20  # no pool that is drawn has more GPUs
UNREAD = ("out_of_range", "not_a_whole_number", "required")
Body = dict[str, object]


def taken(
    body: Body, the_pool: Pool, policy: Policy, *, over_nodes: bool
) -> tuple[Body, dict[str, FieldError], Callable[[Body], set[tuple[str, str]]]]:
    """The body with all that is told in its place, the errors of the counts that can't be read by their fields, and
    what tells why a body is refused."""

    def why(sent: Body) -> set[tuple[str, str]]:
        return reasons(checked(sent, the_pool=the_pool, over_nodes=over_nodes, policy=policy)[1])

    errors = checked(body, the_pool=the_pool, over_nodes=over_nodes, policy=policy)[1]
    unread = {each.field: each for each in errors if each.field in COUNTS and each.code in UNREAD}
    ruled = RULE[:2] in reasons(errors)
    return with_limits(without_rules(body) if ruled else body, errors), unread, why


@settings(max_examples=150, deadline=None, derandomize=True)
@given(pools().filter(lambda pool: pool.nodes), BODIES, st.booleans(), POLICIES)
def test_no_larger_number_is_accepted_than_the_one_that_is_told(the_pool, body, over_nodes, policy):
    mended, unread, why = taken(body, the_pool, policy, over_nodes=over_nodes)
    found = why(mended)
    for field, error in unread.items():
        if error.limit:
            assert all(not why({**mended, field: more}) <= found for more in range(error.limit + 1, LARGEST + 1))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(pools().filter(lambda pool: pool.installed), BODIES, st.booleans(), POLICIES)
def test_where_no_number_is_told_none_is_accepted(the_pool, body, over_nodes, policy):
    mended, unread, why = taken(body, the_pool, policy, over_nodes=over_nodes)
    without = [field for field, error in unread.items() if not error.limit]
    rest = why(mended) - {(field, unread[field].code) for field in without}
    if not without or ("counts", "none") in rest:
        return
    for numbers in product(range(1, LARGEST + 1), repeat=len(without)):
        assert not why({**mended, **dict(zip(without, numbers, strict=True))}) <= rest


@settings(max_examples=300, deadline=None, derandomize=True)
@given(pools().filter(lambda pool: pool.installed), BODIES, st.booleans(), POLICIES)
def test_a_number_of_which_none_is_told_is_to_be_left_out_unless_there_are_no_such_gpus(
    the_pool, body, over_nodes, policy
):
    mended, unread, why = taken(body, the_pool, policy, over_nodes=over_nodes)
    idle = [field for field, error in unread.items() if is_left_out(error)]
    assert all(error.limit or field in idle or ("counts", "none") in why(body) for field, error in unread.items())
    assert not {(field, code) for field, code in why(mended) if field in (*idle, "counts")} or not idle
