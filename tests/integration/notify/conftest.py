"""Receivers, folders of anyone who runs a keeper, and its sender."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.upkeep.channels import Channels
from taskq.upkeep.notifications import Notifications
from taskq.upkeep.sender import Sender
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres, keep
from tests.integration.notify.support import Receiver

Hook = Callable[..., None]
Program = Callable[[str, str], Path]


@pytest.fixture(autouse=True)
def _kept(postgres: Postgres) -> None:
    """Let there be a keeper."""
    keep(postgres)


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give an open campaign without tasks, /c, which agents may choose."""
    return servable(queue, "/c")


@pytest.fixture
def rules(queue: Client) -> Notifications:
    """Give the notification rules of the queue."""
    return queue.notifications


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Give a receiver that listens."""
    value = Receiver()
    value.start()
    yield value
    value.stop()


@pytest.fixture
def channels(tmp_path: Path) -> Channels:
    """Give what a keeper may send: webhooks and programs of two folders."""
    for name in ("webhooks", "programs"):
        (tmp_path / name).mkdir()
    return Channels(webhooks=tmp_path / "webhooks", programs=tmp_path / "programs")


@pytest.fixture
def hook(channels: Channels, receiver: Receiver) -> Hook:
    """Give a function that names a webhook; by default that of the receiver."""

    def made(name: str = "here", url: str | None = None, secret: str = "") -> None:
        assert channels.webhooks is not None
        (channels.webhooks / name).write_text(f"{url or receiver.url}\n{secret}\n")

    return made


@pytest.fixture
def program(channels: Channels) -> Program:
    """Give a function that makes a program that rules may have run."""

    def made(name: str, text: str) -> Path:
        assert channels.programs is not None
        file = channels.programs / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return file

    return made


@pytest.fixture
def sender(database: Database, channels: Channels) -> Iterator[Sender]:
    """Give a sender, as a keeper has one."""
    value = Sender(database, channels)
    yield value
    value.close()
