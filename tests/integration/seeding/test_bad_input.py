"""Bad input: a clear error that names the thing, and nothing half-done."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import taskq
from taskq import Campaign, Client, Seed
from taskq.model.errors import (
    InvalidCampaign,
    InvalidPath,
    InvalidTask,
    NotFound,
    Unavailable,
    UsageError,
)
from tests.helpers.postgres import Postgres, statuses, value
from tests.helpers.variants import rest_thorough

DEEP: Any = []
for _ in range(100_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "path",
    rest_thorough(
        [
            "",
            "a",
            "//",
            "/a/",
            "/a//b",
            "/a b",
            "/ä",
            "/-a",
            "/.a",
            "/../a",
            "/a\n",
            "/a\0",
            "/a%",
            "/a'b",
            "/" + "x" * 101,
            "/x" * 501,
        ],
        5,
    ),
)
def test_malformed_path_is_refused(queue: Client, path: str) -> None:
    """By every call that takes one, and by the database itself."""
    for call in (queue.create_campaign, queue.campaign, queue.agents):
        with pytest.raises((InvalidPath, InvalidCampaign), match="path"):
            call(path)
    with pytest.raises(UsageError):
        queue.database.value("create_campaign", path=path, spec="{}")
    assert len(queue.campaign("/").tree()) == 1


@pytest.mark.parametrize(
    ("record", "reason"),
    rest_thorough(
        [
            ("text", "must be an object .* not str"),
            (["list"], "must be an object .* not list"),
            (None, "must be an object .* not NoneType"),
            (Seed({"x": {1, 2}}), "must be JSON.*set"),
            (Seed({"x": b"bytes"}), "must be JSON.*bytes"),
            (Seed({"x": float("nan")}), "must be JSON"),
            (Seed({"x": float("-inf")}), "must be JSON"),
            (Seed({("a", "b"): 1}), "must be JSON"),  # type: ignore[dict-item]  # on purpose
            (Seed({"x": DEEP}), "must be JSON.*deep"),
            (Seed({"x": "y" * 65_536}), "payload of 655.. bytes; 65536 at most"),
            (Seed({"x": "é" * 32_768}), "payload of 655.. bytes; 65536 at most"),
            (Seed({"x": "a\0b"}), "payload contains a NUL"),
            (Seed({"a\0b": 1}), "payload contains a NUL"),
            (Seed({"x": "\ud800"}), "payload is not valid Unicode"),
            (Seed({"\udfff": 1}), "payload is not valid Unicode"),
            (Seed({}, ""), "key of 0 characters"),
            (Seed({}, "k" * 256), "key of 256 characters; 1 to 255"),
            (Seed({}, "a\0b"), "key contains a NUL"),
            (Seed({}, "\ud800"), "key is not valid Unicode"),
            (Seed({}, 5), "a key must be text, not int"),  # type: ignore[arg-type]  # on purpose
            (Seed({}, "k", 32_768), "priority 32768 is outside -32767 to 32767"),
            (Seed({}, "k", -32_768), "priority -32768 is outside"),
            (Seed({}, "k", 1.5), "a priority must be a whole number, not 1.5"),  # type: ignore[arg-type]  # on purpose
            (Seed({}, "k", "high"), "a priority must be a whole number, not 'high'"),  # type: ignore[arg-type]  # on purpose
        ],
        8,
    ),
)
def test_record_that_cannot_be_a_task_is_refused(
    campaign: Campaign, record: Any, reason: str
) -> None:
    """Before the database sees it; the error tells the record and what is wrong with it."""
    with pytest.raises(InvalidTask, match=f"record at 2: .*{reason}"):
        campaign.seed([Seed({}, "good"), record])
    assert campaign.status().total == 0


def test_unusual_but_valid_values_are_accepted(campaign: Campaign) -> None:
    """The limits themselves, odd characters, and text that only resembles an escape."""
    good = [
        Seed({}, "k" * 255),
        Seed({}, "é" * 255),
        Seed({"x": "y" * (65_536 - len('{"x": ""}'))}),
        Seed({"x": "\\u0000"}),
        Seed({"x": "\\\\u0000 \\"}),
        Seed({"x": "\U0001f9ea\u2028\x01\x7f"}, "\u202e '\"\\"),
        Seed({"x": 10**300, "y": -1e-300, "z": True}),
        Seed({}, "low", -32_767),
        Seed({}, "high", 32_767),
        Seed({}, "\\."),
        Seed({}, "\\N"),
    ]
    assert campaign.seed(good).added == len(good)
    assert [view.payload for view in campaign.tasks()] == [seed.payload for seed in good]
    assert {view.key for view in campaign.tasks()} >= {"\\.", "\\N", "\u202e '\"\\"}


def test_unknown_key_is_named_and_nothing_moves(campaign: Campaign, postgres: Postgres) -> None:
    """Whichever call names it, next to keys that are known."""
    campaign.seed([Seed({}, "a")])
    for call in (
        lambda: campaign.cancel(["a", "typo"]),
        lambda: campaign.retry(keys=["a", "typo"]),
        lambda: campaign.task("typo"),
        lambda: campaign.attempts("typo"),
    ):
        with pytest.raises(NotFound, match="/c has no task with the key 'typo'"):
            call()
    assert statuses(postgres) == {"a": "waiting"}


def test_unknown_status_is_named(campaign: Campaign) -> None:
    """As is one that cannot be retried."""
    campaign.seed([Seed({}, "a")])
    with pytest.raises(UsageError, match="wating"):
        list(campaign.tasks("wating"))
    with pytest.raises(UsageError, match="wating"):
        campaign.retry(status="wating")
    with pytest.raises(UsageError, match="only failed, cancelled, delayed and done"):
        campaign.retry(status="waiting")


def test_unknown_campaign_is_named(queue: Client) -> None:
    """With a way to find the right name."""
    with pytest.raises(NotFound, match="no campaign /typo; `taskq tree`"):
        queue.campaign("/typo")


@pytest.mark.parametrize(
    "spec",
    rest_thorough(
        [
            '{"max_attempts": 0}',
            '{"max_attempts": 1001}',
            '{"max_losses": 0}',
            '{"backoff_s": -1}',
            '{"backoff_s": 10, "backoff_max_s": 5}',
            '{"backoff_max_s": 1e9}',
            '{"time_limit_s": 0}',
            '{"time_limit_s": -5}',
            '{"time_limit_s": "soon"}',
            '{"params": [1]}',
            '{"handler": "text"}',
            "[1]",
            "not json",
        ],
        4,
    ),
)
def test_campaign_that_cannot_be_is_refused_by_the_database_too(
    queue: Client, spec: str, postgres: Postgres
) -> None:
    """A client that speaks SQL gets no further than one that uses the library."""
    with pytest.raises(UsageError):
        queue.database.value("create_campaign", path="/a/b", spec=spec)
    assert value(postgres, "select count(*) from taskq.campaign") == 1


@pytest.mark.usefixtures("campaign")
def test_busy_server_is_not_reported_as_unreachable(dsn: str) -> None:
    """Both may be tried again later, but only one of them cannot be reached."""
    impatient = make_conninfo(dsn, options="-c lock_timeout=50ms")
    with psycopg.connect(dsn) as holder, taskq.connect(impatient) as queue:
        holder.execute("select from taskq.campaign where path = '/c' for update")
        with pytest.raises(Unavailable, match=r"lock timeout; another transaction uses"):
            queue.campaign("/c").pause()
