"""Large results are parts of a blob: nothing is copied, and nothing else is read as parts."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq.compute.trust import ResultReader
from taskq.files.folder_store import FolderBlobs
from taskq.files.large_results import resolved
from taskq.model.errors import ResultLost, ResultNotTrusted
from taskq_agent import arrays, buffers, typed
from taskq_agent.handlers import calls, results
from taskq_agent.handlers.base import Ended
from taskq_agent.objects import ObjectWriter
from taskq_agent.protocol import DONE, FAILED, MAX_RESULT_BYTES
from taskq_agent.scratch import RESULT_FILE
from taskq_agent.transport import MAX_BLOB_BYTES

LARGE = np.arange(50_000.0)


class Holder:
    """An object that is no data."""

    def __init__(self, array: Any) -> None:
        self.array = array


def joined(parts: Sequence[Any]) -> bytes:
    """Return parts as one."""
    return b"".join(buffers.packed(parts))


def ended(folder: Path, data: bytes) -> Ended:
    """Return the end of an attempt that leaves a result file."""
    (folder / RESULT_FILE).write_bytes(data)
    return results.ended_by({"id": 1, "result_file": True}, 1, str(folder))


def written(value: object) -> tuple[str | None, bytes]:
    """Return the result of a function as its child writes it: small, or its blob."""
    small, large = results.written(
        typed.encode_result(value, ObjectWriter(calls.pickled), buffers.Data)
    )
    return small, b"".join(large)


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=5))
def test_parts_come_back_as_aligned_views(parts: list[bytes]) -> None:
    """The bytes do not matter."""
    whole = memoryview(bytearray(joined(parts)))
    found = buffers.unpacked(whole)
    assert [bytes(view) for view in found] == parts
    start = np.frombuffer(whole, "u1").__array_interface__["data"][0]
    for view in filter(len, found):
        place = np.frombuffer(view, "u1").__array_interface__["data"][0]
        assert (place - start) % 64 == 0


@given(st.data())
def test_other_bytes_are_no_parts(data: st.DataObject) -> None:
    """Wrong lengths are an error. A damaged head is one too, or gives other parts of the blob."""
    whole = joined([b"{}", b"x" * 100, b""])
    cut = data.draw(st.sampled_from([whole[:-1], whole + b"x", whole[:30], whole[:16], b""]))
    with pytest.raises(ValueError, match=r"part|cut off"):
        buffers.unpacked(cut)
    damaged = bytearray(whole)
    damaged[data.draw(st.integers(0, 47))] ^= data.draw(st.integers(1, 255))
    try:
        parts = buffers.unpacked(damaged)
    except ValueError:
        return
    assert sum(map(len, parts)) < len(whole)


def test_number_of_parts_allocates_nothing() -> None:
    """A few bytes may claim any number."""
    for number in (0, 70_000, 1 << 60):
        with pytest.raises(ValueError, match=r"part|cut off"):
            buffers.unpacked(buffers.MAGIC + struct.pack("<Q", number))


@pytest.mark.parametrize(
    "text",
    [
        '[{"$part": 1}, {"$part": 1}]',
        '{"a": {"$part": 2}}',
        '[{"$part": 1}, {"$part": 0}]',
        '[{"$part": 1}, {"$part": true}]',
        '[{"$part": 1}, {"$part": "1"}]',
        '[{"$part": 1}, {"$part": -1}]',
        "{}",
        "{",
        '{"a": ' * 100_000,
    ],
)
def test_json_refers_to_each_part_once(text: str, tmp_path: Path) -> None:
    """So a short blob cannot become a large value in the agent or in readers of its result."""
    whole = joined([text.encode(), b"x" * 5_000])
    end = ended(tmp_path, whole)
    assert (end.outcome, end.error_class, end.retry) == (FAILED, "bad-result", False)
    blobs = FolderBlobs(tmp_path)
    digest, size = blobs.put([whole])
    for of_part in (buffers.as_view, arrays.base64_of):
        with pytest.raises(ResultLost, match="is not a result"):
            resolved(results.reference(digest, size), blobs, of_part)


@pytest.mark.parametrize(
    "value",
    [
        LARGE,
        [LARGE, {"a": LARGE.astype("M8[us]")}, LARGE > 7, LARGE.astype("U8")[:9_000]],
        LARGE.reshape(5, -1)[:, ::2].T,
        {"few": b"x", "bytes": bytes(300_000), "other": bytearray(300_000)},
        np.zeros(20_000, [("a", "<i4"), ("b", "<f8", (2,))]),
        pd.DataFrame({"a": LARGE, "b": LARGE.astype(int)}),
        {"$part": 1, "x": LARGE},
    ],
    ids=["array", "arrays", "strided", "bytes", "records", "frame", "odd"],
)
def test_large_results_go_without_base64(value: Any, tmp_path: Path) -> None:
    """The caller gets what the child wrote; other readers get the same in Base64."""
    small, blob = written(value)
    assert small is None
    end = ended(tmp_path, blob)
    assert (end.outcome, end.large) == (DONE, blob)
    blobs = FolderBlobs(tmp_path)
    digest, size = blobs.put([blob])
    reader = ResultReader()
    came = reader.decoded(resolved(results.reference(digest, size), blobs, buffers.as_view))
    shown = resolved(results.reference(digest, size), blobs)
    assert shown == buffers.json_of(blob) == json.loads(json.dumps(shown))
    for item in (came, reader.decoded(shown)):
        assert repr(item) == repr(value)
        if isinstance(value, (np.ndarray, pd.DataFrame)):
            assert np.array_equal(np.asarray(item), np.asarray(value))
            assert size < np.asarray(value).nbytes + 3_000


def test_arrays_are_writable_views_of_the_blob() -> None:
    """Columns of tables are views too."""
    _, blob = written([LARGE, pd.DataFrame({"a": LARGE})])
    whole = bytearray(blob)
    array, frame = ResultReader().decoded(buffers.json_of(whole, buffers.as_view))
    for value in (array, frame["a"].to_numpy()):
        assert np.shares_memory(value, np.frombuffer(whole, "u1"))
    array[0] = 7.0
    assert array.flags.writeable


def test_checked_elements_have_memory_of_their_own() -> None:
    """Writing to another array of the same buffer cannot make them invalid."""
    memory = memoryview(bytearray(4_096))
    texts = arrays.decoded(["<U1", [1_024], memory])
    truths = arrays.decoded(["|b1", [4_096], memory])
    arrays.decoded(["<u4", [1_024], memory])[:] = 0xFFFFFFFF
    assert not any(texts)
    assert not any(truths)


def test_small_results_are_json_whatever_they_hold() -> None:
    """Small results go with their report."""
    for value in (np.arange(1_000.0), b"x" * 100_000, pd.DataFrame({"a": np.arange(1_000.0)})):
        small, _ = written(value)
        assert small is not None
        assert len(small) <= MAX_RESULT_BYTES
        assert repr(ResultReader().decoded(json.loads(small))) == repr(value)


def test_blob_is_as_large_as_any_other() -> None:
    """The limit counts parts and the padding between them."""
    with pytest.raises(results.BadResult, match=f"{MAX_BLOB_BYTES} at most"):
        written([bytes(MAX_BLOB_BYTES // 2)] * 2)


def test_pickle_in_a_blob_is_read_as_any_other() -> None:
    """It needs the same trust, and exactly its own buffers."""
    _, blob = written(Holder(LARGE))
    held = ResultReader([Holder]).decoded(buffers.json_of(bytearray(blob), buffers.as_view)).array
    assert np.array_equal(held, LARGE)
    with pytest.raises(ResultNotTrusted, match="Holder"):
        ResultReader().decoded(buffers.json_of(bytearray(blob), buffers.as_view))
    name, pickle, *memory = buffers.json_of(blob, bytes)["value"]["$pickle"]
    for rest in ([pickle], [pickle, memory[0][:-8]], [pickle, "x", *memory[1:]], []):
        parts = [name, *rest]
        with pytest.raises(ResultNotTrusted):
            ResultReader([Holder]).decoded({"value": {"$pickle": parts}})
