"""Archives of tasks, as tests make them: checkpoints and output files."""

from __future__ import annotations

import hashlib

from taskq.blobs.store import BlobStore
from taskq_agent.archive import heading
from taskq_agent.protocol import Held, Input
from tests.helpers.scripted_agent import Claimed


def held(task: Claimed) -> Held:
    """Return the fence of an attempt."""
    return Held(task.campaign, task.task, task.lease)


def whole(kind: str, task: Claimed, data: bytes) -> bytes:
    """Return an archive of a task."""
    return heading(kind, task.campaign, task.task) + data


def digest_of(kind: str, task: Claimed, data: bytes) -> str:
    """Return the digest of an archive."""
    return hashlib.sha256(whole(kind, task, data)).hexdigest()


def stored(blobs: BlobStore, kind: str, task: Claimed, data: bytes) -> Input:
    """Store an archive of a task; return the blob."""
    digest = digest_of(kind, task, data)
    blobs.put_verified(digest, whole(kind, task, data))
    return Input(digest, len(whole(kind, task, data)))
