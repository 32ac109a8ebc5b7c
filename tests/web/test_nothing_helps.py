"""What the page says where no change would help: what was tried, and nothing else."""

from __future__ import annotations

from scheduling.services.outlook import Foretold
from scheduling.web import outlook_words
from tests import builders as b


def said(*tried: str) -> str:
    found = outlook_words.foretold(Foretold(None, tried=tried), "job", {}, now=b.NOON)
    assert found is not None
    return str(found["nothing"])


def test_only_what_was_tried_is_said_not_to_help():
    assert (
        said("a shorter time limit")
        == "No single change was found that would help it much; tried: a shorter time limit."
    )
    assert said("fewer GPUs", "less memory", "a shorter time limit").endswith(
        "tried: fewer GPUs, less memory and a shorter time limit."
    )
