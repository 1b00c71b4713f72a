"""Heads of safetensors files, sound and lying."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wizard.planning.tensors import add_sizes, header_length, parse_header, parse_index
from wizard.problems import ProblemError


def head(tensors: dict[str, Any]) -> bytes:
    return json.dumps(tensors).encode()


def tensor(dtype: str = "BF16", shape: tuple[int, ...] = (4, 8), begin: int = 0) -> dict[str, Any]:
    size = {"BF16": 2, "F32": 4, "U8": 1}.get(dtype, 2)
    count = 1
    for side in shape:
        count *= side
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, begin + count * size]}


def test_bytes_are_counted_by_dtype_and_by_part() -> None:
    raw = head(
        {
            "__metadata__": {"format": "pt"},
            "model.layers.0.w": tensor(),
            "visual.blocks.0.w": tensor("F32", begin=64),
            "mtp.layers.0.w": tensor("U8", begin=192),
            "model.layers.61.w": tensor(begin=224),
        }
    )
    sizes = parse_header("a.safetensors", raw, 10_000, draft_layer=61)
    assert (sizes.total, sizes.tower, sizes.draft, sizes.loaded) == (288, 128, 96, 192)
    assert dict(sizes.dtypes) == {"BF16": 128, "F32": 128, "U8": 32}
    assert add_sizes([sizes, sizes]).total == 576


@pytest.mark.parametrize(
    ("first", "size"),
    [
        pytest.param(b"", 0, id="empty"),
        pytest.param(b"\x01\x00", 2, id="two-bytes"),
        pytest.param((10**18).to_bytes(8, "little"), 1000, id="longer-than-the-world"),
        pytest.param((2000).to_bytes(8, "little"), 1000, id="longer-than-the-file"),
        pytest.param((0).to_bytes(8, "little"), 1000, id="nothing"),
    ],
)
def test_a_head_that_claims_an_impossible_length_is_refused(first: bytes, size: int) -> None:
    with pytest.raises(ProblemError) as caught:
        header_length("a.safetensors", first, size)
    assert caught.value.problem.code == "checkpoint-broken"


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"not json", id="no-json"),
        pytest.param(b"[" * 200_000, id="deep"),
        pytest.param(b"[]", id="a-list"),
        pytest.param(head({"w": 7}), id="no-description"),
        pytest.param(head({"w": {"dtype": "BF16", "shape": [2]}}), id="no-offsets"),
        pytest.param(head({"w": tensor() | {"data_offsets": [0, 10**15]}}), id="outside-the-file"),
        pytest.param(head({"w": tensor() | {"data_offsets": [64, 0]}}), id="backwards"),
        pytest.param(head({"w": tensor() | {"data_offsets": [-64, 0]}}), id="negative"),
        pytest.param(head({"w": tensor() | {"data_offsets": [True, 64]}}), id="true-for-a-number"),
        pytest.param(head({"w": tensor() | {"shape": [4, 9]}}), id="does-not-fit-its-shape"),
        pytest.param(head({"w": tensor() | {"shape": [-4, -8]}}), id="negative-shape"),
        pytest.param(head({"w": tensor() | {"shape": ["4", 8]}}), id="text-in-the-shape"),
        pytest.param(head({str(at): tensor() for at in range(200)}), id="all-in-one-place"),
    ],
)
def test_a_head_that_does_not_add_up_is_refused(raw: bytes) -> None:
    with pytest.raises(ProblemError) as caught:
        parse_header("a.safetensors", raw, 8 + len(raw) + 64)
    assert caught.value.problem.code == "checkpoint-broken"
    assert caught.value.problem.saw


@pytest.mark.parametrize(
    ("raw", "total", "files"),
    [
        (b'{"metadata": {"total_size": 100}, "weight_map": {"a": "x", "b": "y", "c": "x"}}', 100, ("x", "y")),
        (b'{"metadata": {"total_size": 100.0}}', 100, ()),
        (b'{"metadata": {"total_size": -5}, "weight_map": []}', None, ()),
        (b'{"metadata": {"total_size": "many"}, "weight_map": {"a": 7}}', None, ()),
        (b'{"metadata": []}', None, ()),
        (b"", None, ()),
        (b"[]", None, ()),
    ],
)
def test_an_index_tells_what_it_can(raw: bytes, total: int | None, files: tuple[str, ...]) -> None:
    assert parse_index(raw) == (total, files)


def test_a_pointer_of_git_lfs_is_called_that() -> None:
    with pytest.raises(ProblemError) as caught:
        header_length("model.safetensors", b"version https://git-lfs.github.com/spec/v1"[:8], 134)
    assert "Git LFS" in caught.value.problem.saw[0]
