"""A queue belongs to the process that connected: forked children get an error."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import wait

import pytest

from taskq import Campaign, Client, Executor
from taskq.db.connections import Connection
from tests.helpers.forks import said_in_fork
from tests.payloads import called

pytestmark = [
    pytest.mark.both_transports(
        near=[
            "test_connection_is_not_shared_with_a_forked_child",
            "test_end_of_a_forked_child_ends_no_connection_of_its_parent",
        ]
    ),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),  # since Python 3.12
]

REFUSED = "UsageError('this queue was connected in another process; connect again in this one')"
#: Anyone who leaves the block closes the queue, as the child does that ends by `sys.exit`.
PROGRAM = """
import os, sys
import taskq

with taskq.connect() as queue:
    campaign = queue.create_campaign("/c")
    campaign.submit({}, "a")
    backend = queue.database.value("backend")
    for end in (os._exit, sys.exit):
        if (child := os.fork()) == 0:
            try:
                campaign.task("a")
            except taskq.UsageError:
                end(7)
            end(1)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(code, campaign.task("a").key, flush=True)  # else the next child writes it as well
    print(queue.database.value("backend") == backend)
"""


def test_connection_in_a_forked_child_raises_and_asks_to_connect_again(
    queue: Client, campaign: Campaign
) -> None:
    """The child gets no answers to its parent's statements, and the parent continues."""
    campaign.submit({}, "a")
    assert said_in_fork(lambda: campaign.task("a")) == REFUSED
    assert said_in_fork(lambda: queue.create_campaign("/d")) == REFUSED
    assert said_in_fork(queue.close) == "None"
    assert campaign.task("a").key == "a"


def test_connection_is_not_shared_with_a_forked_child(queue: Client) -> None:
    """Nor ended by it; a new one may be opened there."""

    def ask(connection: Connection) -> int:
        with connection.connected() as statements:
            return int(statements.value("backend"))

    connection = queue.database.dedicated_connection()
    backend = ask(connection)
    assert said_in_fork(lambda: ask(connection)) == REFUSED
    assert said_in_fork(connection.close) == "None"
    assert said_in_fork(lambda: ask(queue.database.dedicated_connection())) != str(backend)
    assert ask(connection) == backend
    connection.close()


def test_nobody_waits_in_a_forked_child_for_what_ends_only_in_its_parent(queue: Client) -> None:
    """What completes futures is a thread of the parent; those that have ended are known."""
    executor = Executor(queue)
    try:
        pending, ended = (executor.submit(called.square, n) for n in (1, 2))
        assert ended.cancel()
        wait([ended])
        for ask in (pending.result, pending.exception, lambda: executor.submit(called.square, 3)):
            assert said_in_fork(ask) == REFUSED
        assert said_in_fork(ended.exception) == "CancelledError()"
        assert said_in_fork(executor.shutdown) == "None"
    finally:
        executor.shutdown(cancel_futures=True)


@pytest.mark.thorough
def test_end_of_a_forked_child_ends_no_connection_of_its_parent(dsn: str) -> None:
    """However it ends."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM],  # as `pytestmark`
        env=os.environ | {"TASKQ_DSN": dsn},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stderr, done.stdout) == ("", "7 a\n7 a\nTrue\n")
