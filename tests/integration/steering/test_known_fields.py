"""Fields that no task has, in filters and in arguments of programs: said before they do harm."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from taskq import Campaign, CampaignSpec, Client, Handler, Seed
from taskq.campaign.known_fields import EACH, STRETCHES, unknown_fields
from taskq.model.errors import TaskqError, UsageError
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, statuses

pytestmark = pytest.mark.both_transports

MANY = 3 * STRETCHES * EACH


@pytest.fixture
def large(campaign: Campaign) -> Campaign:
    """Give more tasks than are looked at, one of which has a field that is not met."""
    rare = MANY // 2 + EACH + 5
    campaign.seed(
        Seed({"n": n, "charge": 0} | ({"note": "x"} if n == rare else {}), f"k{n}")
        for n in range(MANY)
    )
    return campaign


def test_field_of_a_rare_task_serves_where_only_such_tasks_match(large: Campaign) -> None:
    """So many tasks cannot all be looked at; those without it do not match."""
    assert large.cancel(where="payload.note = 'x'", dry_run=True) == 1
    assert large.cancel(where="payload.note != null and payload.note != 'y'") == 1
    assert large.set_priority(3, where="payload.note ~ 'x' or payload.n = 1") == 1


def test_field_that_is_not_met_refuses_what_all_others_match(
    large: Campaign, postgres: Postgres
) -> None:
    """And says how to write it if some have it."""
    with pytest.raises(UsageError) as error:
        large.cancel(where="payload.chrge != 0 and payload.n >= 0")
    assert str(error.value) == (
        f"none of {STRETCHES * EACH} tasks of /c that were looked at has the field payload.chrge, "
        "but there is payload.charge; tasks without it would match: if some have it, write "
        "`payload.chrge != null and (...)`; nothing was changed"
    )
    with pytest.raises(UsageError, match=r"no task matches: .*payload\.chrge"):
        large.cancel(where="payload.chrge = 0")
    with pytest.raises(UsageError, match=r"no task matches: .*payload\.chrge"):
        large.cancel(where="payload.chrge != null and payload.chrge != 0")
    assert set(statuses(postgres).values()) == {"waiting"}


def test_reads_warn_in_python(large: Campaign) -> None:
    """Each tells its caller; a field that some have is no reason."""
    with pytest.warns(UserWarning, match=r"field payload\.chrge, but there is payload\.charge"):
        assert [*large.tasks(where="payload.chrge = 0")] == []
    with pytest.warns(UserWarning, match=r"no result of /c has the field result\.score") as said:
        assert [*large.results(where="result.score < 0")] == []
    assert said[0].filename == __file__
    assert len([*large.tasks(where="payload.charge = 0 and payload.n < 2")]) == 2


def test_field_of_one_campaign_serves_all_below(queue: Client, campaign: Campaign) -> None:
    """The others may have other payloads."""
    for name in ("a", "b"):
        queue.create_campaign(f"/c/{name}").seed([{name: 1}])
    assert campaign.cancel(where="payload.b = 1") == 1
    with pytest.raises(UsageError, match=r"no task of /c/a has the field payload\.b; there are a"):
        queue.campaign("/c/a").cancel(where="payload.b = 1")


def test_campaign_without_tasks_has_nothing_to_say(queue: Client, campaign: Campaign) -> None:
    """Its tasks may come."""
    assert campaign.cancel(where="payload.n != 1") == 0
    assert [*queue.campaign("/").tasks(where="payload.n = 1")] == []


KNOWN: Mapping[str, bool] = {
    "payload.a": True,
    "payload.a.b": True,
    "payload.list.x": True,
    "payload.none": True,
    "payload.dry mass": True,
    "payload.a.c": False,
    "payload.a.b.c": False,
    "payload.list.y": False,
    "payload.b": False,
    "payload.score": False,
    "result.score": True,
    "result.a": False,
    "result.late": False,
}


def test_fields_are_known_as_filters_read_them(
    queue: Client, campaign: Campaign, hire: Hire
) -> None:
    """Nested, in lists, and with null; of results only accepted ones."""
    payload = {"a": {"b": 1}, "list": [{"x": 1}], "none": None, "dry mass": 2}
    campaign.seed([Seed(payload, "k"), Seed({"n": 1}, "l")])
    agent = hire()
    task, other = agent.claim(2)
    agent.done(task, {"score": 1})
    agent.report(other, "failed", result=None)
    fields = [tuple(name.split(".")) for name in KNOWN]
    found = unknown_fields(queue.queries, "/c", [campaign.campaign_id], fields)
    assert {".".join(unknown.name) for unknown in found} == {
        name for name, known in KNOWN.items() if not known
    }
    assert all(unknown.whole for unknown in found)


@pytest.mark.parametrize(
    "fields",
    ["{}", "[1]", '[["key"]]', '[["payload"]]', '[["state", "a"]]', '[["payload", 1]]',
     json.dumps([["payload", "a"]] * 101), json.dumps([["payload", "a" * 140_000]])],
)  # fmt: skip
def test_malformed_field_is_refused(fields: str, queue: Client, campaign: Campaign) -> None:
    """A gateway passes on what a manager sends."""
    words: dict[str, Any] = {"campaign": campaign.campaign_id, "stretches": 1, "each": 1}
    with pytest.raises(TaskqError, match="field"):
        queue.queries.rows("known_fields", fields=fields, **words)


ARGV = ("dock", "{smlies}", "{n}", "{params.e}", "{task.key}", "{scratch}", "{{x}}")


@pytest.fixture
def docking(queue: Client) -> Campaign:
    """Give a campaign whose program has a misspelt argument."""
    handler = Handler("command", argv=ARGV)
    return queue.create_campaign(CampaignSpec("/dock", handler=handler, params={"e": 8}))


def test_seeding_reports_a_placeholder_that_no_payload_has(
    docking: Campaign, taskq: CommandLine
) -> None:
    """In Python and by the command, once; not by each task that fails."""
    text = "no task of /dock has the field payload.smlies, but there is payload.smiles"
    with pytest.warns(UserWarning, match=text) as said:
        docking.seed({"smiles": "C" * n, "n": n} for n in range(1, 20))
    assert len(said) == 1
    shown = taskq("seed", "/dock", "--sweep", "n=30:32", "--sweep", "smiles=C,N")
    assert (shown.exit_code, shown.stderr.count("smlies")) == (0, 1), shown.stderr
    assert text in shown.stderr


def test_placeholder_that_some_payloads_have_is_right(docking: Campaign, queue: Client) -> None:
    """Also if the others lack it; a program that is not given any has none to fill."""
    assert docking.seed([{"smlies": "C", "n": 1}, {"n": 2}]).added == 2
    assert queue.create_campaign("/none").seed([{"n": 1}]).added == 1
