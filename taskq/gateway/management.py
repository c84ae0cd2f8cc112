"""Managers' verbs over HTTP, and agents' checkpoints and output files. Each runs in a thread."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from typing import Any

from taskq.api.client import Client
from taskq.files.archives import Checkpoints, Outputs
from taskq.files.blob_store import BlobStore
from taskq.gateway.auth import Manager
from taskq.gateway.messages import CheckpointMessage, NewTasks
from taskq.ingest.seeding import SeedCount
from taskq.model.errors import Forbidden
from taskq.model.seed import check_path
from taskq_agent.protocol import Held, Input
from taskq_agent.task_messages import CheckpointAnswer


class Management:
    """Managers' verbs, within their tokens' campaigns; agents' checkpoints and output files."""

    def __init__(self, client: Client, blobs: BlobStore) -> None:
        self._client = client
        self.blobs = blobs
        self._checkpoints = Checkpoints(client.database, blobs)
        self._outputs = Outputs(client.database, blobs)

    async def checkpoint(self, session: int, message: CheckpointMessage) -> CheckpointAnswer:
        """Find or save the checkpoint of a task that a session works on."""
        held = Held(message.campaign, message.task, message.lease)
        if not message.digest:
            found, failures = await asyncio.to_thread(self._checkpoints.look, session, held)
            blob = () if found is None else (found.digest, found.size)
            return replace(CheckpointAnswer(True, *blob), memory_failures=failures)
        saved = Input(message.digest, message.size)
        if await asyncio.to_thread(self._checkpoints.save, session, held, saved):
            return CheckpointAnswer(True, saved.digest, saved.size)
        return CheckpointAnswer(held=False)

    async def output(self, session: int, message: CheckpointMessage) -> CheckpointAnswer:
        """Save the output files of a task that a session works on."""
        held = Held(message.campaign, message.task, message.lease)
        saved = Input(message.digest, message.size)
        return CheckpointAnswer(await asyncio.to_thread(self._outputs.save, session, held, saved))

    async def campaigns(self, manager: Manager, path: str) -> list[dict[str, Any]]:
        """Return the counts of a campaign, and of the campaigns directly below it."""
        check(manager, path)

        def looked() -> list[dict[str, Any]]:
            found = self._client.campaign(path)
            return [asdict(one) for one in (found.status(), *found.child_statuses())]

        return await asyncio.to_thread(looked)

    async def set_state(self, manager: Manager, path: str, state: str) -> bool:
        """Open, pause or cancel a campaign; return whether that changed anything."""
        check(manager, path)

        def changed() -> bool:
            campaign = self._client.campaign(path)
            if state == "cancelled":
                return campaign.cancel() > 0
            return campaign.pause() if state == "paused" else campaign.resume()

        return await asyncio.to_thread(changed)

    async def add_tasks(self, manager: Manager, wanted: NewTasks) -> SeedCount:
        """Add tasks; return how many are new, and how many keys were in conflict."""
        check(manager, wanted.path)

        def added() -> SeedCount:
            seeds = [task.seed() for task in wanted.tasks]
            return self._client.campaign(wanted.path).seed(seeds, on_conflict=wanted.on_conflict)

        return await asyncio.to_thread(added)


def check(manager: Manager, path: str) -> None:
    """Raise `Forbidden` unless the token is for this path, `InvalidPath` if the path is invalid."""
    if not manager.may(check_path(path)):
        raise Forbidden(f"this token is not for {path}")
