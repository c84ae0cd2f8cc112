"""Archives of tasks, as tests make them: checkpoints and output files."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping

from taskq import Campaign, Seed
from taskq.files.archives import Outputs
from taskq.files.blob_store import BlobStore
from taskq.files.blobs import DatabaseBlobs
from taskq_agent.archive import OUTPUT, heading
from taskq_agent.protocol import Held, Input
from tests.fixtures.queues import Hire
from tests.helpers.scripted_agent import Claimed, ScriptedAgent

Files = Mapping[str, bytes]


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


def archive(task: Claimed, files: Files, *more: tarfile.TarInfo) -> bytes:
    """Return an archive of a task, whatever agents would say of the names."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as file:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
        for member in more:
            file.addfile(member)
    return heading(OUTPUT, task.campaign, task.task) + out.getvalue()


def end(agent: ScriptedAgent, task: Claimed, data: bytes | None, score: int) -> None:
    """Report a task that has left an archive, or nothing."""
    if data is not None:
        blobs = DatabaseBlobs(agent.database)
        digest = hashlib.sha256(data).hexdigest()
        blobs.put_verified(digest, data)
        assert Outputs(agent.database, blobs).save(None, held(task), Input(digest, len(data)))
    assert agent.done(task, {"score": score}) == "accepted"


def fill(campaign: Campaign, hire: Hire, files: Mapping[str, Files | None]) -> None:
    """Seed tasks, and let each leave its files."""
    campaign.seed([Seed({"key": key}, key) for key in files])
    agent = hire(campaign.path)
    for number, task in enumerate(agent.claim(len(files))):
        left = files[task.key]
        end(agent, task, None if left is None else archive(task, left), number)
