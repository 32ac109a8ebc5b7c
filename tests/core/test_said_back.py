"""What somebody sent is said back to him as he wrote it: in JSON, cut short, with nothing in it that deceives."""

from __future__ import annotations

import pytest

from scheduling.core.fields import shown
from scheduling.core.unusable import BrokenText

from .submitting import the_error


@pytest.mark.parametrize(
    ("sent", "said"),
    [(None, "null"), (True, "true"), (False, "false"), ("None", "'None'"), (1.5, "1.5"), ({}, "{}"),
     ([None, {"a": True}], '[null, {"a": true}]'), ([0] * 100, "[" + "0, " * 19 + "0,...")],
)  # fmt: skip
def test_what_was_sent_is_said_back_in_the_words_of_json(sent, said):
    assert shown(sent) == said


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ([{"group": "it's ü"}], '[{"group": "it\'s ü"}]'), ([], "[]"), ({'"': 1}, '{"\\"": 1}'),
        (["a" * 99], '["' + "a" * 58 + "..."),
    ],
)  # fmt: skip
def test_a_text_in_a_list_or_an_object_is_in_the_quotes_of_json(sent, said):
    assert shown(sent) == said


@pytest.mark.parametrize(
    ("sent", "said"), [("a\u202eb", '["a\\u202eb"]'), (BrokenText("\x00"), '["\\u0000"]'), ("\ud800", '["\\ud800"]')]
)
def test_a_text_in_a_list_that_deceives_or_can_not_be_kept_is_shown_by_its_codes(sent, said):
    assert shown([sent]) == said


def test_a_refusal_says_a_list_back_as_it_was_sent():
    message = the_error({"with": [{"group": "red", "level": "node"}]}).message
    assert message.endswith(', not [{"group": "red", "level": "node"}]')
