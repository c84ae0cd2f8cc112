"""`taskq explain`: why nothing runs, in each of the forms in which that is asked."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from taskq import Client, RetryPolicy
from taskq.db.connections import Database
from taskq.db.tokens import hashed, session_token
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres, silence, value
from tests.helpers.scripted_pool import ScriptedPool
from tests.integration.explaining.support import Make, explained, only

pytestmark = pytest.mark.both_transports(
    near=[
        "test_tokens_that_ended_are_named_until_they_are_replaced",
        "test_draining_agents_claim_no_more",
    ]
)


def test_paused_from_above_names_the_campaign_and_who_paused_it(
    make: Make, queue: Client, hire: Hire
) -> None:
    """The topmost that is not open has to be resumed first."""
    low = make("/top/middle/low")
    hire("/top")
    queue.campaign("/top/middle").pause()
    reason = only(low)
    assert (reason.code, reason.tasks, reason.blocks) == ("paused", 20, True)
    assert "/top/middle (a campaign above) was paused by an operator" in reason.text
    assert list(reason.commands) == ["taskq campaign resume /top/middle"]
    queue.campaign("/top").pause()
    assert only(low).figures["closed"] == "/top"
    assert "20 tasks wait in /top/middle/low: /top was" in only(queue.campaign("/top")).text


def test_explanation_says_why_a_campaign_paused_itself(
    make: Make, hire: Hire, postgres: Postgres
) -> None:
    """What it said of itself when it paused, and where to look."""
    campaign = make()
    hire("/c")
    why = "120 of 121 attempts failed within 3 s, mostly exit-1 (120)"
    postgres.execute(
        "update taskq.campaign set status = 'paused', paused_why = %s where path = '/c'", [why]
    )
    reason = only(campaign)
    assert f"/c paused itself: {why}" in reason.text
    assert list(reason.commands) == ["taskq failures /c", "taskq campaign resume /c"]


def test_explanation_of_max_running_gives_the_tasks_at_work_and_the_limit(
    make: Make, hire: Hire
) -> None:
    """How many work, and how many may."""
    campaign = make(max_running=3)
    assert len(hire("/c").claim(10)) == 3
    reason = only(campaign)
    assert (reason.code, reason.tasks) == ("max-running", 17)
    assert reason.figures == {"working": 3, "max_running": 3}
    assert list(reason.commands) == ["taskq campaign change /c --max-running none"]


def test_explanation_names_the_limit_of_a_site_when_all_sites_are_full(
    make: Make, hire: Hire
) -> None:
    """Not while agents of another site could have more; agents that leave do not count."""
    campaign = make(max_running_per_site=3)
    agents = [hire("/c", site=site) for site in ("a", "b", "")]
    for agent in agents:
        assert all(reason.code != "max-running-per-site" for reason in campaign.explain().reasons)
        assert len(agent.claim(5)) == 3
    reason = only(campaign)
    assert (reason.code, reason.tasks) == ("max-running-per-site", 11)
    assert "max_running_per_site allows 3, and each site" in reason.text
    assert "(without a name, a, b)" in reason.text
    assert reason.figures == {"max_running_per_site": 3, "sites": 3}
    assert list(reason.commands) == ["taskq campaign change /c --max-running-per-site none"]


def test_explanation_names_the_quota_of_the_owner_and_the_command_to_change_it(
    make: Make, queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """Of running tasks, wherever they run; of bytes, until there is room again."""
    campaign = make()
    make("/other")
    owner = queue.owners.of("/c")
    assert owner is not None
    # What operators do: it is not offered over a gateway.
    postgres.execute("select taskq.set_quota(%s, %s)", [owner, '{"max_running": 2}'])
    assert only(campaign).code == "no-agents"
    hire("/c")
    other = hire("/other")
    (task,) = other.claim(1)
    assert "allows 2 running tasks, and 1 runs" in only(campaign).text
    assert len(other.claim(3)) == 1
    reason = only(campaign)
    assert (reason.code, reason.tasks, reason.blocks) == ("quota-running", 20, True)
    assert f"2 tasks of {owner} work in all campaigns, and the quota allows 2" in reason.text
    assert list(reason.commands) == [
        f"taskq owner quota --running none {owner}",
        "taskq owner list",
    ]
    assert reason.figures == {"working": 2, "max_running": 2, "owner": owner}
    other.done(task)
    postgres.execute("select taskq.set_quota(%s, %s)", [owner, '{"max_bytes": 1}'])
    postgres.execute("update taskq.quota set is_full = true")
    reason = only(campaign)
    assert (reason.code, reason.figures["max_bytes"]) == ("quota-bytes", 1)
    assert "and the quota allows 1 bytes: no tasks are handed out" in reason.text


def test_reached_limit_is_named_with_the_campaigns_that_hold_it(
    make: Make, hire: Hire, queue: Client, postgres: Postgres
) -> None:
    """How much of it is used, by whom, and how it is made larger."""
    postgres.execute("select taskq.set_limit('oechem', 2)")
    campaign, holder = make(named_limits=("oechem",)), make("/holder", named_limits=("oechem",))
    hire("/c")
    agent = hire("/holder", slots=2)
    assert all(reason.code != "named-limit" for reason in campaign.explain().reasons)
    agent.claim(5)
    reason = only(campaign)
    assert (reason.code, reason.tasks, reason.blocks) == ("named-limit", 20, True)
    assert "2 starts count towards the limit oechem, which allows 2" in reason.text
    assert "it is held by /holder (5 tasks)" in reason.text
    assert list(reason.commands) == ["taskq limit list"]
    assert reason.figures == {"limit": "oechem", "used": 2, "most": 2}
    assert [limit.name for limit in queue.limits.list()] == ["oechem"]
    assert holder.spec().named_limits == ("oechem",)


def test_explanation_of_a_share_says_whether_owners_share_first(
    make: Make, hire: Hire, postgres: Postgres
) -> None:
    """The weight of the campaign alone then does not say what it gets."""
    small, _ = make("/small"), make("/big", weight=3.0)
    hire("/", host="n1")
    hire("/big", host="n2").claim(1)
    postgres.execute("select taskq.share_by_owner(true)")
    assert "weight 3); owners share first, by their weights (`taskq owner`)" in only(small).text


def test_explanation_of_a_share_names_the_campaigns_that_have_the_slots(
    make: Make, hire: Hire
) -> None:
    """With the share that the weights would give."""
    small, _ = make("/small"), make("/big", weight=3.0)
    hire("/", host="n1")
    hire("/big", host="n2").claim(1)
    reason = only(small)
    assert reason.code == "share"
    assert reason.figures["elsewhere"] == 1
    assert reason.figures["share"] == pytest.approx(0.25)
    assert "most in /big (1, weight 3); by weight 25% are for /small" in reason.text
    assert "taskq campaign change /small --weight 2" in reason.commands


def test_slots_that_are_all_busy_are_counted(make: Make, hire: Hire) -> None:
    """It runs as fast as it can with these agents."""
    campaign = make()
    hire("/c").claim(1)
    found = explained(campaign)
    assert found.headline == "1 runs, 19 tasks wait"
    assert [reason.code for reason in found.reasons] == ["busy"]
    assert not found.reasons[0].blocks


def test_delayed_tasks_are_due_at_an_instant(make: Make, hire: Hire) -> None:
    """The first of them, with what makes others wait less."""
    campaign = make(tasks=1, retry=RetryPolicy(backoff_s=600))
    agent = hire("/c")
    agent.fail(agent.claim()[0])
    found = explained(campaign)
    assert found.headline == "nothing runs, 1 is delayed"
    (reason,) = found.reasons
    assert (reason.code, reason.tasks, reason.blocks) == ("delayed", 1, True)
    assert any("--backoff" in command for command in reason.commands)
    key = next(campaign.tasks()).key
    due = campaign.task(key).due_at
    assert reason.figures["due_at"] == due
    why = only(campaign, key)
    assert (why.code, why.figures["due_at"]) == ("delayed", due)
    assert "failed on node1: Boom: it broke" in why.text
    assert f"taskq retry /c --key={key} --status delayed" in why.commands
    assert "taskq retry /c --status delayed" in reason.commands


def test_leased_ahead_is_no_task_that_runs(
    make: Make, hire: Hire, database: Database, postgres: Postgres
) -> None:
    """Redis has them, and only who asks there gets them."""
    campaign = make(tasks=4)
    hire("/c")
    pool = ScriptedPool(database, campaign.campaign_id)
    assert len(pool.lease(4)) == 4
    postgres.execute(
        "insert into taskq.front_list (campaign_id, entries, rank) values (%s, 4, 0)"
        " on conflict (campaign_id) do update set entries = 4",
        [campaign.campaign_id],
    )
    postgres.execute("update taskq.front_refiller set until = clock_timestamp() + interval '1 h'")
    found = explained(campaign)
    assert (found.headline, found.leased_ahead) == ("nothing runs", 4)
    assert [(reason.code, reason.tasks, reason.blocks) for reason in found.reasons] == [
        ("leased-ahead", 4, True)
    ]
    assert only(campaign, next(campaign.tasks()).key).code == "leased-ahead"


def test_explanation_of_the_brake_says_how_many_agents_are_silent(
    make: Make, hire: Hire, postgres: Postgres
) -> None:
    """What they have is held, and can be handed out by hand."""
    campaign = make(tasks=12)
    agents = [hire("/c", host=f"n{n}") for n in range(12)]
    for agent in agents:
        agent.claim()
    for agent in agents:
        silence(postgres, agent.session)
    value(postgres, "select taskq.expire()")
    reasons = {reason.code: reason for reason in explained(campaign).reasons}
    assert reasons["brake"].figures == {"silent": 12, "agents": 12, "until": None}
    assert "held until one sends a heartbeat" in reasons["brake"].text
    assert "taskq recover --dry-run" in reasons["brake"].commands
    assert "held-by-silent" not in reasons


def test_silent_agent_holds_its_tasks_until_an_instant(
    make: Make, queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """Of the campaign, and of the task."""
    campaign = make(tasks=1)
    agent = hire("/c", host="n17")
    agent.claim()
    silence(postgres, agent.session)
    (until,) = (agent.expires_at for agent in queue.agents())
    for reason in (only(campaign), only(campaign, next(campaign.tasks()).key)):
        assert reason.code == "held-by-silent"
        assert "n17" in reason.text
        assert reason.figures["until"] == until


def test_explanation_without_serving_agents_names_those_that_left(
    make: Make, hire: Hire, postgres: Postgres
) -> None:
    """With their reasons, and with the agents that serve other campaigns."""
    campaign = make(requires=("gpu",))
    assert only(campaign).text == ("20 tasks wait: no agent serves /c; it needs the tag gpu.")
    assert only(campaign).commands[0] == "taskq agent run --campaign /c --offer gpu"
    make("/other")
    hire("/other")
    for _ in range(2):
        postgres.execute(
            "select taskq.end_session(%s, 'this node is broken')", [hire("/c").session]
        )
    reason = only(campaign)
    assert "the 1 agent at work serves other campaigns only" in reason.text
    assert "2 agents left within the last hour: this node is broken." in reason.text
    assert "taskq agent list /c --left" in reason.commands


@pytest.mark.parametrize(
    ("offers", "missed"),
    [((), ["gpu", "mem>=16"]), (("gpu",), ["mem>=16"]), (("gpu", "mem=8.5"), ["mem>=16"])],
)
def test_tags_that_nobody_offers_are_named(
    offers: tuple[str, ...], missed: list[str], make: Make, hire: Hire
) -> None:
    """And what agents offer instead."""
    campaign = make(requires=("gpu", "mem>=16"))
    hire("/c", offers=offers)
    reason = only(campaign)
    assert (reason.code, reason.figures["missing"]) == ("tags", missed)
    assert reason.text.startswith("20 tasks wait: no agent at work offers " + " ".join(missed))


@pytest.mark.parametrize(
    ("settings", "needs"),
    [
        ({"checkpoint_bytes": 20_000}, "protocol>=1"),
        ({"output_bytes": 20_000}, "protocol>=1"),
        ({"require": ("score",)}, "protocol>=2"),
        ({"require_files": ("pose",), "output_bytes": 20_000}, "protocol>=2"),
    ],
)
def test_agents_that_would_ignore_files_get_nothing_and_the_reason_is_named(
    settings: dict[str, Any], needs: str, make: Make, hire: Hire
) -> None:
    """They would report tasks as done without them, or with results that lack what is required."""
    campaign = make(**settings)
    old = hire("/c", speaks=False, offers=("gpu",))
    assert old.claim() == []
    reason = only(campaign)
    assert (reason.code, reason.figures["missing"]) == ("tags", [needs])
    assert "need agents of this release" in reason.text
    assert all("protocol" not in line and "--require" not in line for line in reason.commands)
    assert hire("/c").claim()


def test_draining_agents_claim_no_more(make: Make, hire: Hire, queue: Client) -> None:
    """By hand, or by a ban with its reason."""
    campaign = make()
    hire("/c", host="n1")
    assert queue.drain_agents("/c") == 1
    assert only(campaign).code == "draining"
    assert queue.fleet.ban("host", "n1", why="its disk dies") == 0
    reason = only(campaign)
    assert (reason.code, reason.figures) == ("banned", {"agents": 1, "banned": 1})
    assert "1 by a ban (of the host n1: its disk dies)" in reason.text
    assert reason.commands[0] == "taskq host unban n1"
    hire("/c", host="n2")
    by_code = {reason.code: reason for reason in explained(campaign).reasons}
    assert by_code["banned"].text == (
        "1 of 2 agents (n1) is ordered to leave: the host n1 is banned: its disk dies."
    )


def test_silent_agents_are_no_agents(make: Make, hire: Hire, postgres: Postgres) -> None:
    """Whether they are lost is not known before an instant."""
    campaign = make()
    agent = hire("/c")
    silence(postgres, agent.session)
    assert (only(campaign).code, only(campaign).blocks) == ("silent", True)


def test_tokens_that_ended_are_named_until_they_are_replaced(
    make: Make, queue: Client, postgres: Postgres
) -> None:
    """Expired or revoked; one that is valid again under its name is none."""
    campaign = make()
    secret, _ = queue.tokens.create("site", "cracow", ["/c"])
    key = str(uuid.uuid4())
    postgres.execute(
        "select taskq.enrol(%s, %s, null, '/c', %s)",
        [hashed(secret), hashed(session_token(secret, key)), key],
    )
    assert {reason.code for reason in explained(campaign).reasons} == {"free-slots"}
    queue.tokens.revoke("cracow")
    codes = {reason.code: reason for reason in explained(campaign).reasons}
    assert codes.keys() == {"no-agents", "token"}
    assert codes["token"].text.startswith("The token cracow for agents of /c was revoked at 20")
    queue.tokens.create("site", "cracow", ["/c"])
    assert only(campaign).code == "no-agents"
    postgres.execute("update taskq.token set expires_at = clock_timestamp()")
    codes = {reason.code: reason for reason in explained(campaign).reasons}
    assert codes["token"].figures["state"] == "expired"
    (line,) = codes["token"].commands
    assert line.startswith("taskq token revoke cracow && taskq token create cracow --kind site ")
    assert line.endswith(" --campaign /c --to cracow.new.token")


def test_explanation_names_campaigns_without_a_handler(queue: Client, hire: Hire) -> None:
    """With the number of tasks that each reason keeps."""
    queue.create_campaign("/c/bare").seed({"n": n} for n in range(5))
    hire("/c")
    paused = servable(queue, "/c/paused", tasks=7)
    paused.pause()
    found = explained(queue.campaign("/c"))
    assert [(why.code, why.tasks) for why in found.reasons] == [("paused", 7), ("no-handler", 5)]
    assert found.reasons[1].commands[0].startswith("taskq campaign change /c/bare -- PROGRAM")


def test_slowed_agents_are_counted(make: Make, hire: Hire, postgres: Postgres) -> None:
    """They make one attempt at a time, whatever slots they have."""
    campaign = make()
    agent = hire("/c", host="n1")
    postgres.execute(
        "update taskq.session set suspect = 'bad' where session_id = %s", [agent.session]
    )
    by_code = {reason.code: reason for reason in explained(campaign).reasons}
    assert by_code["slowed"].figures == {"agents": 1, "slots": 1}
    other = hire("/c", host="n2")
    assert "free-slots" in {reason.code for reason in explained(campaign).reasons}
    other.claim()  # so that only slots of the slowed one are free
    by_code = {reason.code: reason for reason in explained(campaign).reasons}
    assert {"busy", "slowed"} <= set(by_code)
    assert by_code["busy"].figures["slots"] == 1


def test_tasks_fetched_ahead_are_no_more_slots(make: Make, hire: Hire) -> None:
    """Agents hold more tasks than they have slots; those do not run."""
    campaign = make()
    assert len(hire("/c").claim(5)) == 5
    found = explained(campaign)
    assert found.headline == "1 runs, 4 fetched ahead, 15 tasks wait"
    (reason,) = found.reasons
    assert "the 1 slot of 1 agent that can claim them is busy, and 5 tasks of /c are held" in (
        reason.text
    )
    assert "agents fetch some ahead" in reason.text
