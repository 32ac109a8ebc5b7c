"""What do people call it? Fields of a request, and what is said of them, in the words of the pages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from scheduling.core.words import MONTHS, duration_in_words

# What the form calls the fields whose label is not their name.
LABELS = {
    "gpu_count": "GPUs",
    "gpu_memory_min": "Memory",
    "max_duration": "Time limit",
    "nvlink_required": "NVLink required",
    "out_dtype": "Stored as",
    "base_model": "Base model",
    "tokenizer_source": "Tokenizer of",
    "layer_pattern": "Layers by",
    "on_mismatch": "Tensors that differ",
    "node_count": "Nodes",
    "gpus_per_node": "GPUs per node",
    "nvlink_exclusive": "Whole NVLink group",
    "required_level": "All in one",
    "max_wait_for_level": "How long to hold out for it",
    "allow_span": "Spread over nodes",
    "anti_affinity": "Keep away from",
    "affinity": "Rules of placement",
    "with": "Run beside",
    "not_before": "Earliest start",
    "start_by": "Latest start",
    "replaces": "In place of",
    "after": "Wait for",
    "after_any": "However they end",
}
# Of a command; many of these names are words of every language, so they are not looked for in sentences.
OF_COMMAND = {
    "argv": "Program",
    "shell": "Program",
    "files": "Working files",
    "env": "Environment",
    "cwd": "Working directory",
    "nproc": "Processes per node",
    "preempt_signal": "Signal to save",
    "checkpoint_exit_code": "Exit code after saving",
    "done_file": "Done file",
    "exit_zero_after_signal": "Exit code 0 after the signal",
    "limit_notice_s": "Notice of its time limit",
}
# Of an evaluation, for the same reason.
OF_EVALUATE = {
    "dataset": "Data set",
    "batch_size": "Samples at a time",
    "limit": "Only the first samples",
    "file": "File of the data set",
}
OF_INFER = {
    "input": "Data set",
    "max_new_tokens": "New tokens",
    "logprobs": "Log-probabilities",
    "max_bad_rows": "Bad rows passed over",
}
# Of a search, for the same reason.
OF_EVOLVE = {
    "space": "What is searched",
    "settings": "Settings of the merge",
    "test": "Test set",
    "population": "Candidates of a generation",
    "budget": "Evaluations at most",
    "grid": "Fixed values first",
    "sigma": "First step",
}
_OF_KINDS = OF_COMMAND | OF_EVALUATE | OF_INFER | OF_EVOLVE
# Inside of a sentence, where a label would be no noun.
INSIDE = {"replaces": "taking a place"}
# What a job is to do without, such as one that is to lie on fewer nodes.
GIVEN_UP = {
    "nvlink_exclusive": "the wish for a whole NVLink group",
    "required_level": "the need for one rack or NVLink group",
    "max_wait_for_level": "the time to hold out",
}
_PLAIN = {"with", "after"}  # also a word of every language
_NAMES = "|".join(sorted((name for name in LABELS if name not in _PLAIN), key=len, reverse=True))
_NAMED = re.compile(rf"(?<![\w.'\"])({_NAMES})(?![\w.'\"=])")
_SECONDS = re.compile(r"\b([0-9]{1,12}) seconds\b")
_INSTANT = re.compile(rf"\b(\d\d?) ({'|'.join(MONTHS)}) (\d{{4}}), (\d\d):(\d\d)(?::(\d\d))? UTC")


def said(message: str, inside: Mapping[str, str] = INSIDE) -> str:
    """A sentence that names fields and seconds as REST does, as the pages say it: a field by its label, but by
    ``inside`` where it doesn't begin the sentence."""

    def called(found: re.Match[str]) -> str:
        return (inside.get(found[1]) if found.start() else None) or LABELS[found[1]]

    named = _NAMED.sub(called, message)
    return _SECONDS.sub(lambda found: duration_in_words(int(found[1])), named)


def label(field: str) -> str:
    """What the pages call the field, or a part of it such as ``params.t``."""
    whole, _, part = field.partition(".")
    if whole == "params" and part:
        return label(part)
    name = LABELS.get(whole) or _OF_KINDS.get(whole, whole.replace("_", " ").capitalize() if len(whole) > 1 else whole)
    return f"{name}, {part.replace('.', ' ').replace('_', ' ')}" if part else name


def parts(message: str) -> Iterator[dict[str, Any]]:
    """The sentence piece by piece: ``text``, or an instant as ``at``, which a page shows in the reader's own zone."""
    done = 0
    for found in _INSTANT.finditer(message):
        day, month, year, hour, minute, second = found.groups()
        yield {"text": message[done : found.start()]}
        yield {
            "at": datetime(
                int(year), MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second or 0), tzinfo=UTC
            )
        }
        done = found.end()
    yield {"text": message[done:]}
