"""What `taskq db check` finds, and its remedies, followed to the letter."""

from __future__ import annotations

import re

import psycopg

from taskq.db.checks.every import Checked, checked
from taskq.db.connections import Database
from tests.fixtures.logins import Staff

_CODE = re.compile(r"`([^`]+)`")


def faults(database: Database, *names: str) -> list[Checked]:
    """Return what is not fine, of some checks or of all."""
    return [
        it for it in checked(database) if it.state == "fault" and (not names or it.check in names)
    ]


def only(database: Database, name: str) -> Checked:
    """Return the only finding of a check."""
    (it,) = [it for it in checked(database) if it.check == name]
    return it


def follow(staff: Staff, remedy: str) -> None:
    """Do what a remedy says, as the owner of the schema."""
    for words in _CODE.findall(remedy):
        if words.startswith("taskq "):
            staff.taskq.out(*words.split()[1:])
        else:
            with psycopg.connect(staff.owner.database.dsn, autocommit=True) as admin:
                admin.execute(words.encode())


def break_by(staff: Staff, *orders: str) -> None:
    """Run statements that spoil the server."""
    with psycopg.connect(staff.owner.database.dsn, autocommit=True) as admin:
        for order in orders:
            admin.execute(order.encode())
