"""What a job of kind command may ask for, and the word and the way out for everything else."""

from __future__ import annotations

from typing import Any

import pytest

from workers.catalog import KINDS, check_params
from workers.command_params import MAX_COMMAND, MAX_ENV, MAX_INPUTS, MAX_NPROC, MAX_VALUE, MAX_WORDS

PLAIN = {"argv": ["python", "train.py"]}


def test_a_whole_command_is_taken_as_it_is() -> None:
    asked = {
        "argv": ["python", "train.py", "--eos-token", "</s>", "--api-key=$KEY"], "files": "code",
        "inputs": {"base": "m"},
        "cwd": "input/files", "env": {"LR": "0.1", "TOKENIZERS_PARALLELISM": "false"}, "torchrun": True, "nproc": 2,
        "preempt_signal": "SIGUSR1", "checkpoint_exit_code": 99, "done_file": "done",
        "exit_zero_after_signal": "success", "limit_notice_s": 90,
    }  # fmt: skip
    assert check_params("command", asked) == (asked, [])


@pytest.mark.parametrize(
    "line",
    ["python train.py > $EMEP_OUTPUT_DIR/log 2>&1", "./run.sh 'a;b' \"c && d\"", "python -c 'a=1'", "prog $(nproc)"],
)
def test_a_shell_line_of_one_command_is_taken(line: str) -> None:
    assert check_params("command", {"shell": line}) == ({"shell": line}, [])


@pytest.mark.parametrize(
    ("params", "field", "code", "limit"),
    [
        ({}, "params.argv", "required", None),
        ({"argv": ["a"], "shell": "a"}, "params.argv", "conflict", None),
        ({"argv": []}, "params.argv", "not_a_command", None),
        ({"argv": "python x"}, "params.argv", "not_a_command", None),
        ({"argv": ["  "]}, "params.argv", "not_a_command", None),
        ({"argv": ["a", 1]}, "params.argv", "not_a_command", None),
        ({"argv": ["a"] * (MAX_WORDS + 1)}, "params.argv", "too_long", MAX_WORDS),
        ({"argv": ["a", "x" * MAX_COMMAND]}, "params.argv", "too_long", MAX_COMMAND),
        ({"argv": ["p", "--api-key", "abc"]}, "params.argv.2", "secret", None),
        ({"argv": ["p", "--hf_token=abc"]}, "params.argv.1", "secret", None),
        ({"argv": ["p", "hf_" + "a" * 30]}, "params.argv.1", "secret", None),
        ({"argv": ["p", "https://me:pw@host/x"]}, "params.argv.1", "secret", None),
        ({"shell": ""}, "params.shell", "not_a_command", None),
        ({"shell": ["a"]}, "params.shell", "not_a_command", None),
        ({"shell": "x" * (MAX_COMMAND + 1)}, "params.shell", "too_long", MAX_COMMAND),
        ({"shell": "a\nb"}, "params.shell", "not_one_command", None),
        ({"shell": "a && b"}, "params.shell", "not_one_command", None),
        ({"shell": "a;b"}, "params.shell", "not_one_command", None),
        ({"shell": "a | tee b"}, "params.shell", "not_one_command", None),
        ({"shell": "a &"}, "params.shell", "not_one_command", None),
        ({"shell": "cd /x"}, "params.shell", "not_a_command", None),
        ({"shell": "LR=1 python x"}, "params.shell", "not_a_command", None),
        ({"shell": "echo 'a"}, "params.shell", "not_a_command", None),
        ({"shell": "p --password hunter2"}, "params.shell", "secret", None),
        ({"shell": "p API_KEY=abc"}, "params.shell", "secret", None),
        ({**PLAIN, "env": ["A"]}, "params.env", "not_an_object", None),
        ({**PLAIN, "env": {f"A{i}": "" for i in range(MAX_ENV + 1)}}, "params.env", "too_many", MAX_ENV),
        ({**PLAIN, "env": {"A B": "1"}}, "params.env.A B", "bad_name", None),
        ({**PLAIN, "env": {"A": 1}}, "params.env.A", "not_a_text", None),
        ({**PLAIN, "env": {"A": "x" * (MAX_VALUE + 1)}}, "params.env.A", "too_long", MAX_VALUE),
        ({**PLAIN, "env": {"WANDB_API_KEY": "abc"}}, "params.env.WANDB_API_KEY", "secret", None),
        ({**PLAIN, "env": {"A": "ghp_" + "a" * 36}}, "params.env.A", "secret", None),
        *(
            ({**PLAIN, "env": {name: "1"}}, f"params.env.{name}", "reserved", None)
            for name in ("EMEP_EPOCH", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "CUDA_VISIBLE_DEVICES", "MASTER_PORT",
                         "RANK", "LD_PRELOAD", "PATH", "TMPDIR")
        ),
        ({**PLAIN, "files": 3}, "params.files", "not_a_text", None),
        ({**PLAIN, "inputs": ["a"]}, "params.inputs", "not_an_object", None),
        ({**PLAIN, "inputs": {"../x": "a"}}, "params.inputs.../x", "bad_name", None),
        ({**PLAIN, "inputs": {"files": "a"}}, "params.inputs.files", "bad_name", None),
        ({**PLAIN, "inputs": {"a": ""}}, "params.inputs.a", "not_a_text", None),
        ({**PLAIN, "inputs": {f"a{i}": "m" for i in range(MAX_INPUTS + 1)}}, "params.inputs", "too_many", MAX_INPUTS),
        ({**PLAIN, "cwd": "../.."}, "params.cwd", "bad_path", 1024),
        ({**PLAIN, "cwd": 1}, "params.cwd", "bad_path", 1024),
        ({**PLAIN, "torchrun": "yes"}, "params.torchrun", "not_a_boolean", None),
        ({"shell": "python x", "torchrun": True}, "params.torchrun", "conflict", None),
        ({"argv": ["python", "-u", "x.py"], "torchrun": True}, "params.argv", "conflict", None),
        ({"argv": ["python"], "torchrun": True}, "params.argv", "conflict", None),
        ({**PLAIN, "nproc": 2}, "params.nproc", "conflict", None),
        ({**PLAIN, "torchrun": True, "nproc": 0}, "params.nproc", "out_of_range", [1, MAX_NPROC]),
        ({**PLAIN, "torchrun": True, "nproc": MAX_NPROC + 1}, "params.nproc", "out_of_range", [1, MAX_NPROC]),
        ({**PLAIN, "preempt_signal": "SIGKILL"}, "params.preempt_signal", "unknown_value",
         ["SIGTERM", "SIGUSR1", "SIGUSR2"]),
        ({**PLAIN, "limit_notice_s": -1}, "params.limit_notice_s", "out_of_range", [0, 86_400]),
        ({**PLAIN, "limit_notice_s": "90s"}, "params.limit_notice_s", "out_of_range", [0, 86_400]),
        ({**PLAIN, "exit_zero_after_signal": "maybe"}, "params.exit_zero_after_signal", "unknown_value",
         ["preempted", "success"]),
        ({**PLAIN, "checkpoint_exit_code": 137}, "params.checkpoint_exit_code", "out_of_range", [3, 125]),
        ({**PLAIN, "checkpoint_exit_code": True}, "params.checkpoint_exit_code", "out_of_range", [3, 125]),
        ({**PLAIN, "done_file": "/etc/done"}, "params.done_file", "bad_path", 1024),
        ({**PLAIN, "arg": 1}, "params.arg", "unknown_field", None),
    ],
)  # fmt: skip
def test_what_cannot_run_is_refused_by_field_and_limit(params: Any, field: str, code: str, limit: Any) -> None:
    (error,) = check_params("command", params)[1]
    assert (error.field, error.code) == (field, code)
    assert limit is None or error.limit == limit


def test_all_faults_are_told_at_once() -> None:
    _, errors = check_params("command", {"env": {"RANK": "1"}, "nproc": 0, "checkpoint_exit_code": 0})
    assert [e.code for e in errors] == ["required", "reserved", "conflict", "out_of_range", "out_of_range"]


def test_files_and_inputs_are_the_artifacts_it_names() -> None:
    assert KINDS["command"].references({"files": "code", "inputs": {"base": "m"}}) == [
        ("params.files", "code", "files"), ("params.inputs.base", "m", "base"),
    ]  # fmt: skip
