"""What is read from where, and what is refused before any data is read."""

from __future__ import annotations

import argparse
import json
import os
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tests.workers.engines.builders import bits, candidate, header_bytes, merged, model, random_model, refusal
from workers.engines.tensors import inspect, load_tensors

ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
TWO = bytes(8)


def entry(**changes: object) -> dict[str, object]:
    return {"w": {**ENTRY, **changes}}


CORRUPT = {
    "shorter than its length prefix": b"\1\2\3",
    "empty": b"",
    "header longer than the file": header_bytes(entry(), TWO, length=5000),
    "header above 100 MB": header_bytes(entry(), TWO, length=100_000_001),
    "length of 2^64-1": header_bytes(entry(), TWO, length=2**64 - 1),
    "length too short for its JSON": header_bytes(entry(), TWO, length=9),
    "not JSON": header_bytes(b"{nonsense", TWO),
    "not an object": header_bytes(b"[1]", TWO),
    "not UTF-8": header_bytes(b'{"\xff": 1}', TWO),
    "NaN for a number": header_bytes(b'{"w":{"dtype":"F32","shape":[NaN],"data_offsets":[0,8]}}', TWO),
    "half a surrogate pair as a name": header_bytes({"\ud800": ENTRY}, TWO),
    "deeply nested": header_bytes(b'{"a":' + b"[" * 200_000, TWO),
    "a name twice": header_bytes(b'{"w":%b,"w":%b}' % ((json.dumps(ENTRY).encode(),) * 2), TWO),
    "unknown dtype": header_bytes(entry(dtype="F31"), TWO),
    "dtype not a string": header_bytes(entry(dtype=32), TWO),
    "negative shape": header_bytes(entry(shape=[-2]), TWO),
    "shape not a list": header_bytes(entry(shape=2), TWO),
    "boolean in the shape": header_bytes(entry(shape=[True, 2]), TWO),
    "shape that overflows": header_bytes(entry(shape=[2**62, 2**62]), TWO),
    "shape and offsets disagree": header_bytes(entry(shape=[3]), TWO),
    "offsets in reverse": header_bytes(entry(data_offsets=[8, 0]), TWO),
    "three offsets": header_bytes(entry(data_offsets=[0, 8, 8]), TWO),
    "an unknown key": header_bytes(entry(extra=1), TWO),
    "an entry that is no object": header_bytes({"w": 5}, TWO),
    "metadata that is not text": header_bytes({"__metadata__": {"n": 1}, **entry()}, TWO),
    "data cut off": header_bytes(entry(), TWO[:-1]),
    "bytes after the data": header_bytes(entry(), TWO + b"!"),
    "overlapping tensors": header_bytes({**entry(), "v": {**ENTRY, "data_offsets": [4, 12]}}, bytes(12)),
    "a gap between tensors": header_bytes({**entry(), "v": {**ENTRY, "data_offsets": [9, 17]}}, bytes(17)),
}


@pytest.mark.parametrize("content", CORRUPT.values(), ids=CORRUPT.keys())
def test_a_corrupt_file_is_refused_with_its_name(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "weights.safetensors").write_bytes(content)
    refused = refusal(load_tensors, tmp_path / "weights.safetensors")
    assert (refused.code, refused.details["file"]) == ("corrupt_input", "weights.safetensors")


@pytest.mark.parametrize(("case", "word"), [("overlapping tensors", "overlaps"), ("a gap between tensors", "gap")])
def test_a_wrong_layout_is_told_for_what_it_is(case: str, word: str, tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(CORRUPT[case])
    assert word in refusal(load_tensors, tmp_path / "w.safetensors").message


def test_four_bit_floats_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(header_bytes(entry(dtype="F4"), TWO))
    assert refusal(load_tensors, tmp_path / "w.safetensors").code == "unsupported_dtype"


def test_eight_bit_floats_are_refused_by_name(tmp_path: Path) -> None:
    a = model(tmp_path / "a", {"w": torch.zeros(2).to(torch.float8_e4m3fn)})
    assert refusal(load_tensors, a).details["dtype"] == "F8_E4M3"


def test_a_file_cut_short_after_opening_is_refused_not_a_crash(tmp_path: Path) -> None:
    a, b = (model(tmp_path / n, {"w": [1.0, 2.0]}) for n in "ab")
    made = candidate(a, b)
    (b / "model.safetensors").write_bytes((b / "model.safetensors").read_bytes()[:-4])
    assert refusal(made.tensor, "w").code == "corrupt_input"


def sharded(directory: Path, weight_map: dict[str, str] | None = None) -> Path:
    directory.mkdir()
    save_file({"x": torch.ones(3), "y": torch.ones(2)}, directory / "one.safetensors")
    save_file({"z": torch.ones(4)}, directory / "two.safetensors")
    truth = {"x": "one.safetensors", "y": "one.safetensors", "z": "two.safetensors"}
    index = {"metadata": {}, "weight_map": truth if weight_map is None else weight_map}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    return directory


def test_shards_with_an_index_are_one_model(tmp_path: Path) -> None:
    assert set(load_tensors(sharded(tmp_path / "m")).models[0].specs) == {"x", "y", "z"}


def test_a_sharded_and_a_single_file_of_the_same_tensors_merge_to_the_same_bits(tmp_path: Path) -> None:
    many = sharded(tmp_path / "many")
    one = model(tmp_path / "one", {"x": [1.0] * 3, "y": [1.0] * 2, "z": [1.0] * 4})
    other = model(tmp_path / "b", {"x": [1.0, 2.0, 3.0], "y": [0.0, 2.0], "z": [9.0, 0.0, 1.0, 1.0]})
    left, right = merged(candidate(many, other)), merged(candidate(one, other))
    assert {n: bits(t) for n, t in left.items()} == {n: bits(t) for n, t in right.items()}


@pytest.mark.parametrize(
    "weight_map",
    [
        {"x": "one.safetensors", "z": "two.safetensors"},
        {"x": "one.safetensors", "y": "one.safetensors", "z": "two.safetensors", "w": "two.safetensors"},
        {"x": "one.safetensors", "y": "two.safetensors", "z": "two.safetensors"},
        {"x": "../one.safetensors"},
        {"x": "a\0.safetensors"},
        {"x": 5},
        {},
    ],
    ids=["extra tensor", "missing tensor", "wrong shard", "path outside", "NUL", "not a name", "empty"],
)
def test_an_index_that_does_not_name_exactly_the_tensors_is_refused(weight_map, tmp_path: Path) -> None:
    assert refusal(load_tensors, sharded(tmp_path / "m", weight_map)).code == "corrupt_input"


def test_an_index_to_a_shard_that_is_not_there_is_refused_with_its_name(tmp_path: Path) -> None:
    refused = refusal(load_tensors, sharded(tmp_path / "m", {"x": "gone.safetensors"}))
    assert "gone.safetensors" in refused.message


@pytest.mark.parametrize("name", ["m.onnx", "m.jit", "m.pkl", "m.gguf", "m.h5", "m.txt"])
def test_other_formats_are_refused_by_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"x")
    refused = refusal(load_tensors, tmp_path / name)
    assert (refused.code, refused.details["file"]) == ("unsupported_format", name)


def test_a_directory_with_only_a_foreign_format_is_refused_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"x")
    assert refusal(load_tensors, tmp_path).details["file"] == "net.onnx"


def test_a_directory_without_weights_lists_what_it_has(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_text("hello")
    refused = refusal(load_tensors, tmp_path)
    assert (refused.code, refused.details["files"]) == ("no_weights", ["readme.txt"])


def test_two_weight_files_without_an_index_are_ambiguous(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_file({"x": torch.ones(1)}, tmp_path / f"{name}.safetensors")
    assert refusal(load_tensors, tmp_path).code == "ambiguous_input"


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert refusal(load_tensors, tmp_path / "nothing").code == "not_found"


@pytest.mark.parametrize("nest", [None, "state_dict", "model_state"])
@pytest.mark.parametrize("zipped", [True, False])
def test_a_torch_checkpoint_opens_like_the_safetensors_of_its_tensors(nest, zipped, tmp_path: Path) -> None:
    weights = {"w": torch.arange(6.0).reshape(2, 3).t(), "n": torch.tensor(3)}
    content = weights if nest is None else {nest: weights, "epoch": 3}
    torch.save(content, tmp_path / "m.pth", _use_new_zipfile_serialization=zipped)
    other = model(tmp_path / "b", {"w": weights["w"].contiguous() * 2, "n": torch.tensor(3)})
    got = candidate(tmp_path / "m.pth", other, strategy="linear", weights=[1, 1]).tensor("w")
    assert torch.equal(got, weights["w"] * 1.5)


class Bomb:
    def __reduce__(self):
        return (eval, ("1/0",))


class System:
    def __reduce__(self):
        return (os.system, ("touch /nowhere",))


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "old format"])
@pytest.mark.parametrize(
    ("content", "named"),
    [
        (Bomb(), "eval"),
        ({"w": System()}, "posix.system"),
        (torch.nn.Linear(2, 2), "torch.nn.modules.linear.Linear"),
        ({"w": torch.ones(1), "args": argparse.Namespace(lr=1)}, "argparse.Namespace"),
    ],
    ids=["code", "a command", "a whole model", "arguments beside the weights"],
)
def test_a_checkpoint_that_could_run_code_is_refused_by_the_name_of_what_it_holds(
    content, named, zipped, tmp_path
) -> None:
    torch.save(content, tmp_path / "m.pt", _use_new_zipfile_serialization=zipped)
    refused = refusal(load_tensors, tmp_path / "m.pt")
    assert (refused.code, dict(refused.details)) == ("unsafe_pickle", {"file": "m.pt", "refused": named})
    assert refused.message == (
        f"m.pt holds '{named}' beside its weights, which may run code when it is opened, so it is not opened: save the "
        "state dictionary alone (torch.save(model.state_dict(), path)), or as safetensors"
    )


def test_a_pickle_of_a_protocol_that_is_not_read_is_refused_without_torchs_advice_to_trust_it(tmp_path: Path) -> None:
    (tmp_path / "m.pt").write_bytes(pickle.dumps({"w": 1}, protocol=4))
    with pytest.warns(UserWarning, match="protocol 4"):
        refused = refusal(load_tensors, tmp_path / "m.pt")
    assert refused.code == "corrupt_input"
    assert refused.message.startswith(
        "m.pt is no file of weights that PyTorch's weights-only loader reads (Unsupported"
    )
    assert "weights_only" not in refused.message


@pytest.mark.parametrize("content", [{"a": 1}, [torch.ones(1)], {}], ids=["a number", "a list", "nothing"])
def test_a_checkpoint_that_is_no_plain_dictionary_of_tensors_is_refused(content, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "m.pt")
    refused = refusal(load_tensors, tmp_path / "m.pt")
    assert (refused.code, refused.details["file"]) == ("corrupt_input", "m.pt")


@pytest.mark.parametrize("content", [b"", b"garbage", b"PK\x03\x04broken"])
def test_a_broken_checkpoint_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.bin").write_bytes(content)
    assert refusal(load_tensors, tmp_path / "m.bin").code == "corrupt_input"


def test_different_shapes_are_refused_with_both_shapes_and_both_models(tmp_path: Path) -> None:
    a, b = model(tmp_path / "a", {"w": [[1.0, 2.0]]}), model(tmp_path / "b", {"w": [1.0, 2.0]})
    refused = refusal(load_tensors, a, b, labels=["model-0", "model-1"])
    assert (refused.code, dict(refused.details)) == (
        "shape_mismatch",
        {"tensor": "w", "models": ["model-0", "model-1"], "shapes": [[1, 2], [2]]},
    )


def test_a_missing_tensor_is_refused_with_the_nearest_names(tmp_path: Path) -> None:
    a = model(tmp_path / "a", {"layer.0.weight": [1.0]})
    b = model(tmp_path / "b", {"layers.0.weight": [1.0]})
    refused = refusal(load_tensors, a, b)
    assert [(p.code, p.details["model"], p.details["nearest"]) for p in refused.problems] == [
        ("missing_tensor", "b", ["layers.0.weight"]),
        ("missing_tensor", "a", ["layer.0.weight"]),
    ]


def test_a_float_and_an_integer_of_one_name_are_refused(tmp_path: Path) -> None:
    a, b = model(tmp_path / "a", {"w": [1.0]}), model(tmp_path / "b", {"w": torch.tensor([1])})
    assert refusal(load_tensors, a, b).details["dtypes"] == ["F32", "I64"]


@pytest.mark.parametrize("name", ["l.qweight", "l.qzeros", "l.weight.absmax"])
def test_packed_quantized_weights_are_refused_by_name(name: str, tmp_path: Path) -> None:
    a = model(tmp_path / "a", {name: torch.tensor([1], dtype=torch.int32)})
    assert (refusal(load_tensors, a).code, refusal(load_tensors, a).details["tensor"]) == ("quantized_weights", name)


def test_a_config_that_declares_quantization_is_refused(tmp_path: Path) -> None:
    a = model(tmp_path / "a", {"w": [1.0]}, config_json='{"quantization_config": {"bits": 4}}')
    assert refusal(load_tensors, a).code == "quantized_weights"


def test_everything_wrong_with_every_model_is_told_at_once(tmp_path: Path) -> None:
    a = model(tmp_path / "a", {"w": [1.0], "v": [1.0]})
    b = model(tmp_path / "b", {"w": [1.0, 2.0]})
    (tmp_path / "c.safetensors").write_bytes(b"")
    found = {p.code for p in refusal(load_tensors, a, b, tmp_path / "c.safetensors").problems}
    assert found == {"shape_mismatch", "missing_tensor", "corrupt_input"}


def test_a_flood_of_problems_is_cut_with_a_count(tmp_path: Path) -> None:
    a = model(tmp_path / "a", {f"{i}": [1.0] for i in range(60)})
    b = model(tmp_path / "b", {f"{i}": [1.0, 2.0] for i in range(60)})
    problems = refusal(load_tensors, a, b).problems
    assert (len(problems), problems[-1].code, problems[-1].details["more"]) == (51, "more_problems", 10)


def test_no_source_at_all_is_refused() -> None:
    assert refusal(load_tensors).code == "no_models"


def test_models_in_directories_of_one_name_are_told_apart(tmp_path: Path) -> None:
    twins = model(tmp_path / "x" / "m", {"w": [1.0]}), model(tmp_path / "y" / "m", {"w": [1.0]})
    tensors, _ = inspect(*twins)
    assert [m.label for m in tensors.models] == ["m (1)", "m (2)"]


def test_opening_reads_no_data(tmp_path: Path) -> None:
    a, b = random_model(tmp_path / "a", 1), random_model(tmp_path / "b", 2)
    with (a / "model.safetensors").open("r+b") as file:
        file.seek(-400, 2)
        file.write(b"\xff" * 400)  # NaN in every float of the tail: only a reader of data would notice
    assert len(load_tensors(a, b).specs) == 6
