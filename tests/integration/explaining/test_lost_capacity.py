"""`taskq explain` on capacity that is lost: hosts, gateways, and agents that refuse or idle."""

from __future__ import annotations

import json
import secrets
import uuid

import pytest

from taskq import Campaign, Client
from taskq.db.tokens import hashed
from taskq.diagnosis.events import event_of, subject
from taskq.diagnosis.reasons import Reason
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres
from tests.helpers.scripted_agent import ScriptedAgent, report_of
from tests.integration.explaining.support import Make, explained, only


def lost(campaign: Campaign) -> dict[str, Reason]:
    """Return the reasons for capacity that is lost, by their cause."""
    reasons = [reason for reason in explained(campaign).reasons if reason.code == "capacity-lost"]
    return {reason.figures["cause"]: reason for reason in reasons}


def knock(
    postgres: Postgres, token: str, *hosts: str, path: str = "/c", site: str = "x"
) -> list[str | None]:
    """Say hello from some hosts in one statement; return the codes of refusals."""
    hellos = []
    for place, host in enumerate(hosts):
        key = str(uuid.uuid4())
        hellos.append(
            {
                "place": place,
                "token_hash": f"\\x{hashed(token).hex()}",
                "session_hash": f"\\x{hashed(key).hex()}",
                "address": None,
                "path": path,
                "key": key,
                "agent": "a",
                "host": host,
                "site": site,
                "pid": 1,
                "slots": 1,
                "release": "",
                "offers": [],
            }
        )
    rows = postgres.execute("select * from taskq.enrol_many(%s, 60)", [json.dumps(hellos)])
    return [row["refused"] for row in sorted(rows.fetchall(), key=lambda row: row["place"])]


@pytest.mark.both_transports
def test_hosts_that_are_gone_are_named_with_the_reason(
    make: Make, hire: Hire, queue: Client, postgres: Postgres
) -> None:
    """Banned, lost, or by themselves; not those where another agent goes on."""
    campaign = make("/c", tasks=40)
    hire("/c", host="n1").claim()
    for host in ("n2", "n2", "n3", "n4", "n1"):
        hire("/c", host=host)
    end = "update taskq.session set ended_at = now(), {} where host = %s and session_id <> %s"
    kept = campaign.explain().reasons
    assert "capacity-lost" not in {reason.code for reason in kept}
    (first,) = (
        agent.session_id for agent in queue.agents("/c") if agent.host == "n1" and agent.working
    )
    postgres.execute(end.format("expired = true"), ["n2", 0])
    postgres.execute(end.format("left_why = 'no time left'"), ["n3", 0])
    postgres.execute(end.format("left_why = 'banned'"), ["n4", 0])
    postgres.execute(end.format("left_why = 'stopped'"), ["n1", first])
    postgres.execute(
        "insert into taskq.ban (kind, name, why, login, banned_at)"
        " values ('host', 'n4', 'no scratch', 'x', now())"
    )
    found = lost(campaign)
    assert found.keys() == {"lost", "left", "ban host n4"}
    assert all(not reason.blocks for reason in found.values())
    assert found["lost"].text.startswith(
        "2 of 5 slots of today are gone: no heartbeat came from host n2 of site here since 20"
    )
    assert "the agents of host n3 of site here left at 20" in found["left"].text
    assert found["left"].text.endswith("Z: no time left.")
    assert (
        "host n4 is banned (no scratch), which keeps host n4 of site here away"
        in found["ban host n4"].text
    )
    assert found["ban host n4"].commands == ["taskq host unban n4"]
    gone = {place.name: place.gone for place in queue.fleet.hosts("/c")}
    assert gone["n1"] == ""
    assert gone["n2"].startswith("lost at 20")
    assert gone["n3"].endswith("Z: no time left")
    assert gone["n4"] == "host n4 is banned: no scratch"
    busy = "".join(reason.text for reason in campaign.explain().reasons if reason.code == "busy")
    assert "More agents" not in busy


def test_more_that_is_lost_for_one_cause_is_notified_again(
    make: Make, hire: Hire, postgres: Postgres
) -> None:
    """A loss at another site and one of ten times as many slots are troubles of their own."""
    campaign = make("/c", tasks=40)
    hire("/c", host="n0").claim()
    end = "update taskq.session set ended_at = now(), expired = true, slots = %s, site = %s"

    def loss(host: str, slots: int, site: str) -> str:
        """Lose a host; return the subject of the loss until now."""
        hire("/c", host=host)
        postgres.execute(f"{end} where host = %s", [slots, site, host])
        reason = lost(campaign)["lost"]
        assert event_of(reason)
        return subject("/c", reason)

    first = loss("n1", 3, "aare")
    assert loss("n2", 4, "aare") == first
    elsewhere = loss("n3", 1, "emme")
    assert elsewhere != first
    assert loss("n4", 40, "emme") != elsewhere


def test_hosts_whose_hellos_are_refused_are_named_with_the_reason(
    make: Make, hire: Hire, queue: Client, postgres: Postgres
) -> None:
    """A token that is revoked, used up or expired; a ban; another reason. Not hosts at work."""
    campaign = make("/c", tasks=40)
    hire("/c", host="n0").claim()
    tokens = {
        name: queue.tokens.create("site", name, ["/c"], max_uses=most)[0]
        for name, most in (("old", None), ("gone", None), ("few", 1), ("good", None))
    }
    assert knock(postgres, tokens["few"], "n3") == [None]
    queue.tokens.revoke("gone")
    postgres.execute("update taskq.token set expires_at = now() where name = 'old'")
    queue.fleet.ban("site", "emme", why="power cut")
    refused = [
        knock(postgres, tokens[name], host, **words)[0]
        for name, host, words in (
            ("gone", "n1", {}),
            ("old", "n2", {}),
            ("few", "n4", {}),
            ("few", "n3", {}),  # another agent is at work there
            ("good", "n5", {"site": "emme"}),
            ("good", "n6", {"path": "/d"}),
        )
    ]
    assert refused == ["TQ401", "TQ401", "TQ403", "TQ403", "TQ403", "TQ403"]
    found = lost(campaign)
    assert found.keys() == {"token gone", "token old", "token few", "ban site emme", "refused"}
    assert found["token gone"].text.startswith(
        "The token gone was revoked: agents that present it are refused, at host n1 of site x since"
    )
    assert list(found["token gone"].commands) == [
        "taskq token create gone --kind site --campaign /c --to gone.new.token"
    ]
    assert "is used up" in found["token few"].text
    assert "n3" not in found["token few"].text
    assert found["token few"].commands[0].startswith("taskq token revoke few && taskq token create")
    assert "has expired" in found["token old"].text
    assert "power cut" in found["ban site emme"].text
    assert "host n6" in found["refused"].text
    assert "the token good is not for /d, but for /c" in found["refused"].text


def test_notes_of_refused_hellos_are_few_and_written_seldom(
    make: Make, queue: Client, postgres: Postgres
) -> None:
    """Each host has one note for each token. Unknown tokens leave none, a token at most 50."""
    make("/c")
    token = queue.tokens.create("site", "t", ["/c"])[0]
    queue.tokens.revoke("t")

    def notes() -> list[int]:
        """Count the notes, and the transactions that have written them."""
        text = "select count(*), array_agg(distinct xmin::text) as by from taskq.refused_hello"
        (row,) = postgres.execute(text).fetchall()
        return [row["count"], len(row["by"] or ())]

    assert knock(postgres, secrets.token_hex(32), "n1") == ["TQ401"]
    assert notes() == [0, 0]
    knock(postgres, token, "n1", "n1", "n2")
    assert notes() == [2, 1]
    knock(postgres, token, "n2", "n1")
    assert notes() == [2, 1], "nothing was written"
    postgres.execute("update taskq.refused_hello set last_at = last_at - interval '1 min'")
    knock(postgres, token, "n1")
    assert notes() == [2, 2]
    knock(postgres, token, *(f"h{n}" for n in range(60)))
    assert notes() == [50, 3]


def test_tokens_with_which_nobody_came_are_named_while_slots_lack(
    make: Make, hire: Hire, queue: Client, postgres: Postgres
) -> None:
    """Only valid tokens of this campaign are named."""
    campaign = make("/c", tasks=40)
    make("/d")
    agent = hire("/c", host="n0")
    used = queue.tokens.create("site", "used", ["/c"])[0]
    for name, path in (("fresh", "/c"), ("theirs", "/d"), ("ended", "/c")):
        queue.tokens.create("site", name, [path])
    queue.tokens.revoke("ended")
    assert knock(postgres, used, "n1") == [None]
    assert "never-came" not in {reason.code for reason in explained(campaign).reasons}
    agent.claim(2)
    (reason,) = (reason for reason in explained(campaign).reasons if reason.code == "never-came")
    assert reason.text.startswith("The token fresh was never used since 20")
    assert not reason.blocks
    assert event_of(reason)


def test_token_that_ends_soon_is_named_before_its_agents_are_refused(
    make: Make, queue: Client, postgres: Postgres
) -> None:
    """If agents have come with it; not while more than a tenth of its time is left."""
    campaign = make("/c", tasks=40)
    used = queue.tokens.create("site", "used", ["/c"])[0]
    queue.tokens.create("site", "unused", ["/c"])
    assert knock(postgres, used, "n1") == [None]

    def ends_in(created_days: float, days: float) -> list[str]:
        postgres.execute(
            "update taskq.token set created_at = clock_timestamp() - make_interval(secs => %s),"
            " expires_at = clock_timestamp() + make_interval(secs => %s)",
            [created_days * 86_400, days * 86_400],
        )
        return [it.text for it in explained(campaign).reasons if it.code == "token-ends"]

    assert ends_in(100, 4) == []
    assert ends_in(1, 1) == []
    assert ends_in(100, -0.1) == []
    (text,) = ends_in(100, 2)
    assert text.startswith("The token used ends soon, at 20")


def test_gateways_of_another_release_are_named(make: Make, hire: Hire, postgres: Postgres) -> None:
    """Gateways older than the newest at work are named to readers of the whole queue."""
    campaign = make("/c")
    hire("/c")
    insert = (
        "insert into taskq.gateway (holder, name, release, sessions, per_s, seen_at)"
        " values (gen_random_uuid(), %s, %s, 1, 1, now() - %s * interval '1 s')"
    )
    postgres.execute(insert, ["g1", "0.9.0", 0])
    postgres.execute(insert, ["g0", "0.1.0", 1_000])
    assert "old-gateway" not in {reason.code for reason in explained(campaign).reasons}
    postgres.execute(insert, ["g2", "0.10.0", 0])
    (reason,) = (reason for reason in explained(campaign).reasons if reason.code == "old-gateway")
    assert reason.text.startswith("1 of 2 gateways (g1) runs release 0.9.0, others 0.10.0:")
    assert not reason.blocks


def test_silent_gateway_is_named_until_one_of_its_name_is_there(
    make: Make, hire: Hire, postgres: Postgres
) -> None:
    """One that was started anew has another row."""
    campaign = make("/c")
    hire("/c")
    insert = (
        "insert into taskq.gateway (holder, name, release, sessions, per_s, seen_at)"
        " values (gen_random_uuid(), %s, '1', 40, 1, now() - %s * interval '1 s')"
    )
    postgres.execute(insert, ["g1:8443", 0])
    postgres.execute(insert, ["g2:8443", 45])
    (reason,) = (
        reason for reason in explained(campaign).reasons if reason.code == "silent-gateway"
    )
    assert reason.text.startswith("1 of 2 gateways (g2:8443) has given no sign for 45 s: killed")
    assert (reason.blocks, reason.lost) == (False, 40)
    assert event_of(reason)
    postgres.execute(insert, ["g2:8443", 1])
    assert "silent-gateway" not in {reason.code for reason in explained(campaign).reasons}


def test_agents_of_an_ended_campaign_are_named_while_tasks_wait_elsewhere(
    make: Make, hire: Hire, queue: Client
) -> None:
    """They look free, and claim nothing."""
    make("/c/ended", tasks=1)
    make("/c/more", tasks=9)
    hire("/c/more", slots=2)
    narrow = hire("/c/ended", slots=3, host="n7")
    codes = {reason.code for reason in explained(queue.campaign("/c")).reasons}
    assert "idle-agents" not in codes
    narrow.done(narrow.claim()[0])
    (reason,) = (
        reason for reason in explained(queue.campaign("/c")).reasons if reason.code == "idle-agents"
    )
    assert reason.text == (
        "1 agent with 3 slots (n7) serves only /c/ended, where all tasks have ended. Start it for "
        "a campaign that has tasks."
    )
    assert reason.commands[-1] == "taskq agent run --campaign /c/more"


def test_campaign_that_starves_by_its_weight_is_named(
    make: Make, hire: Hire, queue: Client
) -> None:
    """Campaigns that weigh much more take all slots."""
    light = make("/c/light", tasks=30, weight=0.01)
    light.pause()
    make("/c/heavy", tasks=30)
    hire("/c", slots=4)
    assert len(hire("/c/heavy", slots=1).claim(12)) == 12
    light.resume()
    for waiting, running in ((30, "nothing runs"), (29, "1 runs")):
        reasons = explained(queue.campaign("/c")).reasons
        (reason,) = (reason for reason in reasons if reason.code == "little-weight")
        assert reason.text.startswith(f"{waiting} tasks wait in /c/light, of which {running}: by ")
        assert reason.commands == ["taskq campaign change /c/light --weight 1"]
        hire("/c/light").claim()


def refuse(agent: ScriptedAgent, tasks: int = 1) -> None:
    """Refuse so many tasks."""
    agent.exchange(
        [
            report_of(
                *(task, "released"), refused=True, error_class="program-missing", error="no vina"
            )
            for task in agent.claim(tasks)
        ]
    )


def test_refusing_agents_say_why_and_when_they_try_again(
    make: Make, hire: Hire, postgres: Postgres
) -> None:
    """All of them, or some next to others."""
    campaign = make()
    for host in ("n1", "n2"):
        refuse(hire("/c", host=host))
    reason = only(campaign)
    assert (reason.code, reason.figures["hosts"], reason.blocks) == ("refused", 2, True)
    assert "2 hosts (n1, n2): program-missing: no vina" in reason.text
    hire("/c", host="n3")
    by_code = {reason.code: reason for reason in explained(campaign).reasons}
    assert not by_code["refused"].blocks
    assert by_code["free-slots"].figures["free"] == 1
    # Once the agents try again, they are as good as others.
    postgres.execute("update taskq.refusal set last_at = last_at - interval '1 h'")
    assert {reason.code for reason in explained(campaign).reasons} == {"free-slots"}


def test_host_that_refuses_several_campaigns_for_one_cause_is_one_reason(
    make: Make, hire: Hire, queue: Client
) -> None:
    """The repair of the host helps all of them."""
    for path in ("/c/a", "/c/b"):
        make(path)
        refuse(hire(path, host="n1"))
        hire(path, host="n2")
    reasons = explained(queue.campaign("/c")).reasons
    (reason,) = (reason for reason in reasons if reason.code == "refused")
    assert reason.text == (
        "1 agent on 1 host (n1) skips /c/a, /c/b for now, since they cannot run there: "
        "program-missing: no vina."
    )
    assert reason.commands == ["taskq failures /c", "taskq host show n1"]


def test_agents_that_somebody_drained_are_no_lost_capacity(
    make: Make, hire: Hire, postgres: Postgres
) -> None:
    """A site that stops for the night, as was announced, is named without a message."""
    campaign = make("/c", tasks=40)
    hire("/c", host="n1").claim()
    hire("/c", host="n2")
    end = "update taskq.session set ended_at = now(), left_why = %s where host = 'n2'"
    postgres.execute(end, ["it got the order to drain (network work)"])
    (reason,) = [it for it in explained(campaign).reasons if "n2" in it.text]
    assert (reason.code, reason.lost, event_of(reason)) == ("drained", 0, None)
    assert "Somebody has ordered that" in reason.text
    postgres.execute(end, ["no time left"])
    (reason,) = [it for it in explained(campaign).reasons if "n2" in it.text]
    assert (reason.code, reason.lost > 0) == ("capacity-lost", True)
