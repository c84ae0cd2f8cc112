"""A slot of an agent, a source of its blobs in a test's folder, and a disk that is nearly full."""

from __future__ import annotations

import resource
import signal
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


@pytest.fixture
def small_disk() -> Iterator[None]:
    """Let files grow to 4,000 bytes only, as on a disk that is nearly full."""
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, former[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, former)
    signal.signal(signal.SIGXFSZ, handler)
