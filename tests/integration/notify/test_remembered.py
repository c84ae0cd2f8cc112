"""`taskq explain`: since when reasons hold whose beginning only keepers know."""

from __future__ import annotations

from datetime import datetime

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.diagnosis.explaining import explained
from taskq.model.words import instant
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres
from tests.integration.notify.support import look, pass_by


def test_reason_holds_since_a_keeper_saw_it_first(
    queue: Client,
    campaign: Campaign,
    hire: Hire,
    database: Database,
    postgres: Postgres,
    taskq: CommandLine,
) -> None:
    """Nothing says when an agent began to warn; the memory of keepers does, also below the root."""
    campaign.seed([{}])
    worker = hire("/c", host="n1")
    worker.heartbeat([worker.claim()[0]], warnings=["clock"])

    def since(path: str) -> datetime | None:
        reasons = explained(queue.queries, path).reasons
        return next(it.since for it in reasons if it.code == "warning-clock")

    assert since("/") is None
    look(database, postgres)
    (trouble,) = [it for it in queue.troubles.list("/").troubles if it.code == "warning-clock"]
    assert trouble.since is not None
    assert since("/") == trouble.since
    pass_by(postgres, 60)
    look(database, postgres)
    (again,) = [it for it in queue.troubles.list("/").troubles if it.code == "warning-clock"]
    assert since("/") == again.since
    assert f"Since {instant(again.since)}." in " ".join(taskq.out("explain", "/").split())
