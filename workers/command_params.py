"""The parameters of kind command: any program, checked before a GPU is allocated. Standard library only."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from workers.param_errors import ParamError, unknown
from workers.python_words import interpreter
from workers.reserved_names import reserved
from workers.said_back import shown
from workers.secret_words import WHAT_TO_DO, holds_a_secret, line_holds_a_secret, names_a_secret, secret_arguments

KNOWN = [
    "argv", "shell", "files", "inputs", "cwd", "env", "torchrun", "nproc", "preempt_signal", "checkpoint_exit_code",
    "done_file", "exit_zero_after_signal", "limit_notice_s",
]  # fmt: skip
MAX_WORDS = 512
MAX_COMMAND = 32_768
MAX_ENV = 64
MAX_VALUE = 4096
MAX_INPUTS = 32
MAX_NPROC = 64
MAX_NOTICE_S = 86_400
FILES = "files"
SIGNALS = ("SIGTERM", "SIGUSR1", "SIGUSR2")
AFTER_SIGNAL = ("preempted", "success")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_INPUT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_JOINS = {";", "&&", "||", "|", "&", "|&", ";;"}
# What a shell does itself: exec, which has to stand before the line, finds no program of that name.
_BUILTIN = {
    "cd", "export", "source", ".", "if", "for", "while", "case", "set", "unset", "eval", "exec", "{", "(", "ulimit",
    "umask", "trap", "until", "function", "alias",
}  # fmt: skip
_SCRIPT = "put it into a script that ends with exec, and run that"


def check_command(params: Mapping[str, Any]) -> tuple[dict[str, Any], list[ParamError]]:
    """The parameters of a command with their defaults, and everything wrong with them (empty when they can run)."""
    errors = unknown(params, KNOWN, "command")
    clean, wrong = _program(params)
    errors += wrong
    for read in (_env, _inputs, _place, _ranks, _contract):
        more, wrong = read(params)
        clean |= more
        errors += wrong
    return clean, errors


def command_references(params: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Every artifact a command names: ``(field, reference, name under EMEP_INPUT_DIR)``."""
    found = [("params.files", params["files"], FILES)] if isinstance(params.get("files"), str) else []
    inputs = params.get("inputs")
    if isinstance(inputs, Mapping):
        found += [(f"params.inputs.{n}", r, n) for n, r in list(inputs.items())[:MAX_INPUTS] if isinstance(r, str)]
    return found


def _program(params: Mapping[str, Any]) -> tuple[dict[str, Any], list[ParamError]]:
    argv, line = params.get("argv"), params.get("shell")
    if (argv is None) == (line is None):
        message = "give either argv, a list like ['python', 'train.py'], or shell, one command line"
        code = "required" if argv is None else "conflict"
        return {}, [ParamError("params.argv", code, f"{message}{'' if argv is None else ', not both'}")]
    if argv is not None:
        return {"argv": argv}, _argv_problems(argv)
    wrong = _line_problems(line)
    if isinstance(line, str) and line_holds_a_secret(line[:MAX_COMMAND]):
        message = f"the line holds what looks like a secret; {WHAT_TO_DO}"
        wrong.append(ParamError("params.shell", "secret", message))
    return {"shell": line}, wrong


def _argv_problems(argv: Any) -> list[ParamError]:
    if not isinstance(argv, list) or not argv or not all(isinstance(w, str) for w in argv) or not argv[0].strip():
        message = "argv must be a list of texts whose first is the program, like ['python', 'train.py']"
        return [ParamError("params.argv", "not_a_command", message)]
    if len(argv) > MAX_WORDS:
        message = f"argv has {len(argv)} words, at most {MAX_WORDS} are taken: put them into a file"
        return [ParamError("params.argv", "too_long", message, MAX_WORDS)]
    if (size := sum(len(w.encode("utf-8", "replace")) + 1 for w in argv)) > MAX_COMMAND:
        return [_too_long("params.argv", size)]
    return [
        ParamError(
            f"params.argv.{place}", "secret",
            f"word {place} of argv looks like a secret, and a command line is seen by all on the node; {WHAT_TO_DO}",
        )
        for place in secret_arguments(argv)
    ]  # fmt: skip


def _line_problems(line: Any) -> list[ParamError]:
    field = "params.shell"
    if not isinstance(line, str) or not line.strip():
        return [ParamError(field, "not_a_command", "shell must be one command line, like 'python train.py --lr 1e-3'")]
    if (size := len(line.encode("utf-8", "replace"))) > MAX_COMMAND:
        return [_too_long(field, size)]
    if "\n" in line.strip():
        return [ParamError(field, "not_one_command", f"shell takes one line; {_SCRIPT}")]
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError as problem:
        return [ParamError(field, "not_a_command", f"the shell line is unfinished ({problem}): close it")]
    joint = next((w for w in words if w in _JOINS), None)
    if joint is not None:
        message = f"shell takes one command, and {joint!r} joins several, so that a stop would reach only the shell"
        return [ParamError(field, "not_one_command", f"{message}; {_SCRIPT}")]
    first = words[0] if words else ""
    if first in _BUILTIN or re.match(r"[A-Za-z_]\w*=", first):
        name, sets, _ = first.partition("=")  # what it sets may be a secret
        what = "set variables in env" if sets else _SCRIPT
        message = f"the line is run as 'exec {name[:40]}{sets} ...', which must be a program; {what}"
        return [ParamError(field, "not_a_command", message)]
    return []


def _too_long(field: str, size: int) -> ParamError:
    message = f"the command line has {size} bytes, at most {MAX_COMMAND} are taken: put the rest into a file"
    return ParamError(field, "too_long", message, MAX_COMMAND)


def _env(params: Mapping[str, Any]) -> tuple[dict[str, Any], list[ParamError]]:
    env = params.get("env", {})
    if not isinstance(env, Mapping):
        return {}, [ParamError("params.env", "not_an_object", "env must be an object of texts, like {'LR': '0.1'}")]
    if len(env) > MAX_ENV:
        message = f"env has {len(env)} variables, at most {MAX_ENV} are taken: put them into a file"
        return {}, [ParamError("params.env", "too_many", message, MAX_ENV)]
    return {"env": dict(env)} if env else {}, [e for n, v in env.items() for e in _variable(str(n), v)]


def _variable(name: str, value: Any) -> list[ParamError]:
    field = f"params.env.{name[:80]}"
    if not _ENV_NAME.fullmatch(name):
        message = f"{name[:80]!r} can't name a variable: letters, digits and underscore, at most 128, no digit first"
        return [ParamError(field, "bad_name", message)]
    if why := reserved(name):
        return [ParamError(field, "reserved", f"{name} can't be set: {why}")]
    if not isinstance(value, str):
        return [ParamError(field, "not_a_text", f"{name} must be a text, not {_said(name, value)}: put it in quotes")]
    if len(value.encode("utf-8", "replace")) > MAX_VALUE:
        message = f"{name} is longer than {MAX_VALUE} bytes: put it into a file and name the file"
        return [ParamError(field, "too_long", message, MAX_VALUE)]
    if value and (names_a_secret(name) or holds_a_secret(value)):
        return [ParamError(field, "secret", f"{name} looks like a secret; {WHAT_TO_DO}")]
    return []


def _said(name: str, value: Any) -> str:
    return "what was given" if names_a_secret(name) else shown(value)


def _inputs(params: Mapping[str, Any]) -> tuple[dict[str, Any], list[ParamError]]:
    clean: dict[str, Any] = {}
    errors = []
    files, inputs = params.get("files"), params.get("inputs", {})
    if files is not None:
        clean["files"] = files
        if not isinstance(files, str) or not files.strip():
            errors.append(ParamError("params.files", "not_a_text", "files must be the id or name of one artifact"))
    if not isinstance(inputs, Mapping):
        message = "inputs must be an object of artifacts by the name the job sees, like {'base': 'digits-0-4'}"
        return clean, [*errors, ParamError("params.inputs", "not_an_object", message)]
    if inputs:
        clean["inputs"] = dict(inputs)
    if len(inputs) > MAX_INPUTS:
        message = f"{len(inputs)} inputs, at most {MAX_INPUTS} are taken: put several into one artifact"
        errors.append(ParamError("params.inputs", "too_many", message, MAX_INPUTS))
    for name, reference in inputs.items():
        field = f"params.inputs.{str(name)[:80]}"
        if not _INPUT_NAME.fullmatch(str(name)) or str(name).endswith(".") or name == FILES:
            message = f"{str(name)[:80]!r} can't name an input: letters, digits, . _ -, at most 64, and not {FILES!r}"
            errors.append(ParamError(field, "bad_name", message))
        elif not isinstance(reference, str) or not reference.strip():
            errors.append(ParamError(field, "not_a_text", f"input {name} must be the id or name of an artifact"))
    return clean, errors


def _place(params: Mapping[str, Any]) -> tuple[dict[str, Any], list[ParamError]]:
    cwd = params.get("cwd")
    if cwd is None:
        return {}, []
    whole = isinstance(cwd, str) and 0 < len(cwd) <= 1024 and "\0" not in cwd
    if not whole or ".." in str(cwd).split("/"):
        message = (
            "cwd is a directory on the node, like '/home/alice/code', or one of the job's own, like 'input/files'; "
            "at most 1024 letters, without '..'"
        )
        return {}, [ParamError("params.cwd", "bad_path", message, 1024)]
    return {"cwd": cwd}, []


def _ranks(params: Mapping[str, Any]) -> tuple[dict[str, Any], list[ParamError]]:
    torchrun, nproc = params.get("torchrun", False), params.get("nproc")
    errors = []
    if not isinstance(torchrun, bool):
        errors.append(ParamError("params.torchrun", "not_a_boolean", "torchrun must be true or false"))
    elif torchrun and params.get("shell") is not None:
        message = "torchrun starts a Python script given as argv, like ['train.py', '--lr', '0.1']; use argv"
        errors.append(ParamError("params.torchrun", "conflict", message))
    elif torchrun and isinstance(argv := params.get("argv"), list) and argv:
        script = str(argv[1] if interpreter(str(argv[0])) and len(argv) > 1 else argv[0])
        if interpreter(script) or (script.startswith("-") and script != "-m"):
            message = "torchrun starts a script or -m MODULE: after python there can be no other option; leave it out"
            errors.append(ParamError("params.argv", "conflict", message))
    if nproc is not None:
        if torchrun is not True:
            message = "nproc is the number of processes a node that torchrun starts: set torchrun, or leave it out"
            errors.append(ParamError("params.nproc", "conflict", message))
        if isinstance(nproc, bool) or not isinstance(nproc, int) or not 1 <= nproc <= MAX_NPROC:
            message = f"nproc must be a whole number from 1 to {MAX_NPROC}; without it there is one process a GPU"
            errors.append(ParamError("params.nproc", "out_of_range", message, [1, MAX_NPROC]))
    clean = {"torchrun": True} if torchrun is True else {}
    return clean | ({"nproc": nproc} if nproc is not None else {}), errors


def _contract(params: Mapping[str, Any]) -> tuple[dict[str, Any], list[ParamError]]:
    """How the program tells its end, where it can't be taught our way."""
    clean = {n: params[n] for n in KNOWN[-5:] if params.get(n) is not None}
    errors = []
    for name, choices in (("preempt_signal", SIGNALS), ("exit_zero_after_signal", AFTER_SIGNAL)):
        if name in clean and clean[name] not in choices:
            message = f"{name} must be one of {', '.join(choices)}, not {shown(clean[name])}"
            errors.append(ParamError(f"params.{name}", "unknown_value", message, list(choices)))
    code = clean.get("checkpoint_exit_code", 85)
    # 126 and up are what shells say of a program that could not run or was killed (137: often out of memory).
    if isinstance(code, bool) or not isinstance(code, int) or not 3 <= code <= 125:
        message = "checkpoint_exit_code must be a whole number from 3 to 125; 85 is the default"
        errors.append(ParamError("params.checkpoint_exit_code", "out_of_range", message, [3, 125]))
    notice = clean.get("limit_notice_s", 0)
    if isinstance(notice, bool) or not isinstance(notice, int) or not 0 <= notice <= MAX_NOTICE_S:
        message = (
            f"limit_notice_s is how many seconds before the end of max_duration the program gets its signal: "
            f"a whole number from 0 to {MAX_NOTICE_S}, and at most half of max_duration counts"
        )
        errors.append(ParamError("params.limit_notice_s", "out_of_range", message, [0, MAX_NOTICE_S]))
    path = clean.get("done_file", "done")
    if not isinstance(path, str) or not 0 < len(path) <= 1024 or path.startswith("/") or ".." in path.split("/"):
        message = "done_file is a file in EMEP_OUTPUT_DIR, like 'done'; relative, at most 1024 letters, without '..'"
        errors.append(ParamError("params.done_file", "bad_path", message, 1024))
    return clean, errors
