"""A slot of an agent, and a source of its blobs, in a test's folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.blob_server import BlobSource
from tests.helpers.slot_harness import SlotHarness, slot_in


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[SlotHarness]:
    """Give a slot without blobs."""
    with slot_in(tmp_path) as harness:
        yield harness


@pytest.fixture
def source(tmp_path: Path) -> BlobSource:
    """Give a store without blobs."""
    (tmp_path / "source").mkdir()
    return BlobSource(tmp_path / "source")
