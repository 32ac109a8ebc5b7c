"""The same work, however its artifacts are called."""

from __future__ import annotations

import pytest

from scheduling.services.same_work import Work, is_same


def command(files="code", base="digits", found=("f1", "d1"), **params):
    inputs = [{"artifact": found[0], "as": "files"}, {"artifact": found[1], "as": "base.v2"}]
    return Work("command", {"argv": ["python", base], "files": files, "inputs": {"base.v2": base}, **params}, inputs)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (command(files="f1"), True),
        (command(found=("f1", "d2")), False),
        (command(files="code", found=("f2", "d1")), False),
        (command(nproc=2), False),
        (Work("merge", {"models": []}, []), False),
    ],
)
def test_what_counts_is_which_artifact_it_is_and_every_other_parameter(other, same):
    assert is_same(command(), other) is same


def test_only_what_names_an_artifact_may_be_called_otherwise():
    # The word of argv is the program's, which may mean anything by it.
    assert not is_same(command(base="digits"), command(base="d1"))
    assert is_same(command(base="digits", argv=["true"]), command(base="d1", argv=["true"]))
