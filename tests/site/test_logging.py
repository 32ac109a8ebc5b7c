"""What a log line of an error may hold: where it happened, never what was in the variables."""

from __future__ import annotations

import logging
import logging.config
import sys

from django.conf import settings

SECRET = "hunter2-in-a-local"


def test_an_error_is_logged_with_its_traceback_but_without_the_values_of_variables():
    formatter = logging.config.DictConfigurator(settings.LOGGING).configure_formatter(  # type: ignore[attr-defined]
        dict(settings.LOGGING["formatters"]["line"])
    )
    try:
        token = SECRET
        raise RuntimeError("it broke" if token else "")
    except RuntimeError:
        record = logging.LogRecord("x", logging.ERROR, __file__, 1, "failed", None, sys.exc_info())
    line = formatter.format(record)
    assert "RuntimeError: it broke" in line
    assert SECRET not in line
