"""A parser of arguments that tells all it can't use at once, and leaves the telling to the command."""

from __future__ import annotations

from argparse import ArgumentError, ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from typing import Any

from django.core.management.base import CommandParser, DjangoHelpFormatter


class TellingParser(CommandParser):
    """A parser with the arguments of ``base``, in whose place it stands; none of them is ``required`` there.

    What it can't use is left out of what it reads, and told in ``refused`` of the namespace: a sentence by the name of
    each option, and one by "" of what is no argument at all. Options are written in full, and one that takes a value is
    given once.
    """

    def __init__(self, base: ArgumentParser) -> None:
        super().__init__(
            prog=base.prog,
            description=base.description,
            formatter_class=DjangoHelpFormatter,
            parents=[base],
            add_help=False,
            allow_abbrev=False,
            exit_on_error=False,
            called_from_command_line=False,
        )

    def parse_args(self, args: Iterable[str] | None = None, namespace: Any = None) -> Any:
        """The options that can be used, and ``refused``."""
        left, refused = list(args or ()), dict[str, str]()
        for names in self._given_again(left):
            name = "/".join(names)
            left, refused[name] = _without(left, names), f"argument {name}: is given more than once; give it once"
        while True:
            try:
                found, unknown = self.parse_known_args(left, Namespace(**vars(namespace or Namespace())))
                break
            except ArgumentError as wrong:
                name = wrong.argument_name or ""
                rest = _without(left, name.split("/"))
                if len(rest) == len(left):
                    raise
                left, refused[name] = rest, str(wrong)
        if unknown:
            refused[""] = f"unrecognized arguments: {' '.join(unknown)}"
        found.refused = refused
        return found

    def _given_again(self, arguments: Sequence[str]) -> list[Sequence[str]]:
        """The names of each option that takes one value and is there more than once."""
        single = [action.option_strings for action in self._actions if action.option_strings and action.nargs is None]
        return [names for names in single if sum(_is_of(argument, names) for argument in arguments) > 1]


def _is_of(argument: str, names: Sequence[str]) -> bool:
    """Whether the argument is the option of these names, be its value in the same word."""
    glued = any(argument.startswith(short) and argument != short for short in names if len(short) == len("-v"))
    return argument.partition("=")[0] in names or glued


def _without(arguments: Sequence[str], names: Sequence[str]) -> list[str]:
    """The arguments without those of the option of these names, each with the value that follows it."""
    kept: list[str] = []
    drops_value = False
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        glued = any(argument.startswith(short) and argument != short for short in names if len(short) == len("-v"))
        if name in names or glued:
            drops_value = not equals and not glued
        elif not (drops_value and not argument.startswith("-")):
            kept.append(argument)
            drops_value = False
        else:
            drops_value = False
    return kept
