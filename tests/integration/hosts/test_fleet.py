"""`taskq host`, `sites` and `failures --judge`: three planted problems, each found at a glance."""

from __future__ import annotations

import json
import random
import re
import shlex
from datetime import datetime, timedelta, timezone

import pytest

from taskq import Campaign, Client
from taskq.diagnosis.bans import PlaceKind
from taskq.diagnosis.campaign_tree import Tree
from taskq.diagnosis.sample import SampleSize
from taskq_cli.display import render
from taskq_cli.top.panel import Subject
from taskq_cli.top.panels import Panels
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres
from tests.helpers.scripted_agent import report_of

SITES = {"alpha": ["a1", "a2", "a3", "n17"], "beta": ["b1", "b2", "b3"], "gamma": ["g1", "g2"]}
INSERT = """
    insert into taskq.attempt (
           campaign_id, task_id, attempt, lease_id, session_id, claimed_at, ended_at, outcome,
           error_class, error, tail, phases)
    select %(campaign)s, (r ->> 0)::bigint, (r ->> 1)::integer, gen_random_uuid(),
           (r ->> 2)::bigint, %(at)s, %(at)s + make_interval(secs => (r ->> 3)::double precision),
           (r ->> 4)::taskq.attempt_outcome, r ->> 5, 'ended by ' || (r ->> 5),
           case when r ->> 5 = 'signal-11' then E'atom 17 is too near\n' end,
           jsonb_build_object('run_s', (r ->> 3)::double precision)
      from jsonb_array_elements(%(rows)s::jsonb) r
"""


@pytest.fixture
def planted(queue: Client, campaign: Campaign, postgres: Postgres) -> Campaign:
    """Give a campaign with a black hole, a slow site, and a task in 20 that crashes."""
    campaign.seed({"n": n} for n in range(1_000))
    sessions = {
        host: postgres.execute(
            "select taskq.open_session('/c', gen_random_uuid(), 86400, 'a', %s, %s, 1, 2) as id",
            [host, site],
        ).fetchone()["id"]
        for site, hosts in SITES.items()
        for host in hosts
    }
    draw = random.Random(1)
    rows: list[tuple[object, ...]] = []
    for task in campaign.tasks():
        for attempt in range(1, 4):
            host = draw.choice([*sessions, "n17", "n17", "n17"])
            run_s = draw.lognormvariate(2, 0.3) * (5 if host.startswith("g") else 1)
            outcome, error_class = "done", None
            if host == "n17":
                run_s, outcome, error_class = 0.1, "failed", "exit-127"
            elif task.task_id % 20 == 0:
                outcome, error_class = "failed", "signal-11"
            rows.append((task.task_id, attempt, sessions[host], run_s, outcome, error_class))
            if outcome == "done":
                break
    at = datetime.now(timezone.utc) - timedelta(hours=1)
    values = {"campaign": campaign.campaign_id, "at": at, "rows": json.dumps(rows)}
    postgres.execute(INSERT, values)
    postgres.execute("update taskq.refused set since = %s", [at])  # when it got its handler
    bad = sum(row[4] == "failed" for row in rows)
    postgres.execute(
        "update taskq.counter set done = %s, failures = %s where campaign_id = %s",
        [len(rows) - bad, bad, campaign.campaign_id],
    )
    assert queue.campaign("/c").status().failures == bad
    return campaign


def test_black_hole_is_the_first_host_with_the_command_that_bans_it(
    planted: Campaign, queue: Client, taskq: CommandLine
) -> None:
    """Its share of failures next to that of the others in the same campaign."""
    hosts = queue.fleet.hosts(planted.path)
    first = hosts[0]
    assert (first.name, first.site, first.agents, first.slots) == ("n17", "alpha", 1, 2)
    assert first.failing is not None
    assert first.failing.here.share == 1
    assert first.failing.elsewhere.high < 0.2
    assert [place.name for place in hosts if place.failing and place.failing.is_worse] == ["n17"]
    output = taskq.out("hosts", "/c")
    assert output.splitlines()[1].startswith("n17 ")
    assert " attempts fail here (9" in output
    line, sites = (line for line in output.splitlines() if line.startswith("  $ "))
    assert line == "  $ taskq host ban --why 'exit-127: ended by exit-127' --until 1d n17"
    assert sites == "  $ taskq site list /c"
    assert [place.name for place in hosts if place.verdict] == ["n17", "g2", "g1"]
    taskq.out(*shlex.split(line)[2:])
    hosts = queue.fleet.hosts("/c")
    assert [place.name for place in hosts if place.verdict] == ["g2", "g1", "n17"]
    last = hosts[-1]
    assert last.banned == "exit-127: ended by exit-127"
    assert last.proposal is None
    output = taskq.out("hosts", "/c")
    assert "; n17 is banned until 2" in output
    assert "host ban" not in output


def test_slow_site_is_the_first_site(planted: Campaign, queue: Client, taskq: CommandLine) -> None:
    """Five times as long as elsewhere; a bad host is no fault of its site."""
    sites = queue.fleet.sites(planted.path)
    assert sites[0].name == "gamma"
    assert sites[0].slow is not None
    assert sites[0].slow.low < 5 < sites[0].slow.high
    assert [place.name for place in sites if place.verdict] == ["gamma"]
    by_name = {place.name: place for place in sites}
    assert by_name["alpha"].apart == ["n17"]
    output = taskq.out("sites", "/c")
    assert "1 bad host: n17" in output
    assert "(n17):\n  $ taskq host list /c\n" in output
    assert "gamma: tasks take " in output
    look, line = [line for line in output.splitlines() if line.startswith("  $ taskq")][:2]
    assert look == "  $ taskq host list /c"
    share = sites[0].work
    assert share is not None
    assert f"it does {share:.0%}".replace("%", " %") in " ".join(output.split())
    assert f"the rest takes {1 / (1 - share):.2f} times as long. Look" in " ".join(output.split())
    assert line.endswith(" times as slow' --until 1d gamma")
    taskq.out(*shlex.split(line)[2:])
    assert [place.choice for place in queue.fleet.sites("/c") if place.name == "gamma"] == [None]
    (record,) = [record for record in taskq.json("sites", "/c") if record["name"] == "gamma"]
    assert record["slow"]["times"] == pytest.approx(sites[0].slow.times)


def test_full_screen_offers_a_ban_of_what_fails_and_says_what_one_of_a_slow_site_costs(
    planted: Campaign, queue: Client
) -> None:
    """A slow host still does its part, and is more often its site's fault."""
    panels = Panels(queue, Tree)
    kinds: list[tuple[PlaceKind, list[str]]] = [("host", ["n17"]), ("site", ["gamma"])]
    for kind, offered in kinds:
        pictures = panels.about(f"{kind}s", Subject(planted.path)).read().pictures
        screen = "".join(map(render.as_text, pictures))
        bans = [line for line in screen.splitlines() if f"$ taskq {kind} ban" in line]
        assert [shlex.split(line)[-1] for line in bans] == offered
    assert "without it the rest takes" in " ".join(screen.split())


def test_failures_are_attributed_to_the_host_or_to_the_tasks(
    planted: Campaign, queue: Client, taskq: CommandLine
) -> None:
    """Failures of one host are the host's; those that recur elsewhere are the tasks'."""
    verdicts = {verdict.error_class: verdict for verdict in queue.fleet.failures(planted.path)}
    assert (verdicts["exit-127"].side, verdicts["exit-127"].places) == ("node", ["n17"])
    assert verdicts["signal-11"].side == "task"
    assert verdicts["signal-11"].hosts > 4
    output = taskq.out("failures", "/c")
    assert "exit-127: the hosts' fault: 100 % of " in output
    assert re.search("signal-11: the tasks' fault: [0-9]+ of ", output)
    ended = sum(place.attempts for place in queue.fleet.hosts("/c"))
    assert f"\nWhose fault it is, as shown by all {ended:,} attempts:\n" in output
    commands = [line for line in output.splitlines() if line.startswith("  $ ")]
    keys = {cause.error_class: cause.example_key for cause in planted.failure_causes()}
    assert commands == [
        "  $ taskq host ban --why 'exit-127: ended by exit-127' --until 1d n17",
        f"  $ taskq logs /c {keys['exit-127']}",
        """  $ taskq tasks --where 'class = "signal-11"' /c""",
        f"  $ taskq logs /c {keys['signal-11']}",
        "  $ taskq retry --error-class signal-11 /c",
    ]
    assert "When that is repaired:\n  $ taskq retry" in output
    assert f"\nSuch as {keys['exit-127']}: ended by exit-127\n" in output
    assert f"\nSuch as {keys['signal-11']}: ended by signal-11 | atom 17 is too near\n" in output
    for line in commands:
        taskq.out(*shlex.split(line)[2:])
    output = taskq.out("failures", "/c")
    assert "\nn17 is banned until 2" in output
    assert "host ban" not in output
    assert "$ taskq site list /c\n" in taskq.out("explain", "/c")
    rows = {
        record["error_class"]: record for record in taskq.json("failures", "/c", "--judge", "class")
    }
    assert {name: row["side"] for name, row in rows.items()} == {
        "exit-127": "node",
        "signal-11": "task",
    }
    assert "  the hosts' fault\n" in taskq.out("failures", "/c", "--judge", "class")
    assert taskq.json("failures", "/c", "--judge", "site")[0]["name"] == "gamma"
    assert taskq.json("failures", "/c", "--judge", "host")[-1]["name"] == "n17"
    assert taskq.refused("failures", "/c", "--judge", "host", "--each")[0] == 2


def test_host_that_refuses_tasks_counts_as_bad_and_one_that_hands_back_does_not(
    queue: Client, campaign: Campaign, hire: Hire
) -> None:
    """What a host could not run counts as bad there; what it only handed back does not."""
    campaign.seed({"n": n} for n in range(60))
    good, bad = hire(host="good"), hire(host="bad")
    for _ in range(50):
        good.done(good.claim()[0])
    for _ in range(5):
        report = report_of(
            *(bad.claim()[0], "released"),
            refused=True,
            error_class="prepare-failed",
            error="no library",
        )
        bad.exchange([report])
    good.release(good.claim()[0], started=True)
    report = report_of(
        *(good.claim(10)[-1], "failed"), error_class="prepare-failed", error="no disk"
    )
    good.exchange([report])
    places = {place.name: place for place in queue.fleet.hosts("/c")}
    assert places["bad"].message == "no library"
    assert (places["bad"].bad, places["bad"].attempts) == (5, 5)
    assert (places["good"].bad, places["good"].attempts) == (1, 51)
    assert places["bad"].verdict
    (verdict,) = queue.fleet.failures("/c")
    assert (verdict.error_class, verdict.side, verdict.places) == (
        "prepare-failed",
        "node",
        ["bad"],
    )


def test_use_of_slots_is_payload_time_over_presence(
    queue: Client, campaign: Campaign, postgres: Postgres
) -> None:
    """From the first claim to the last end of a session."""
    campaign.seed({"n": n} for n in range(4))
    session = postgres.execute(
        "select taskq.open_session('/c', gen_random_uuid(), 60, 'a', 'h', 's', 1, 1) as id"
    ).fetchone()["id"]
    at = datetime.now(timezone.utc) - timedelta(hours=1)
    for n, task in enumerate(campaign.tasks()):
        rows = json.dumps([(task.task_id, 1, session, 5.0, "done", None)])
        begun = at + timedelta(seconds=10 * n)
        postgres.execute(INSERT, {"campaign": campaign.campaign_id, "at": begun, "rows": rows})
    postgres.execute("update taskq.counter set done = 4")
    (place,) = queue.fleet.hosts("/c")
    assert place.use == pytest.approx(20 / 35)
    assert place.run_s == pytest.approx(5)


def test_places_without_attempts_or_agents_are_shown(
    queue: Client, campaign: Campaign, hire: Hire, taskq: CommandLine
) -> None:
    """An idle host, and one that is banned while nobody is there."""
    hire("/c", host="idle")
    queue.fleet.ban("host", "gone", why="sold")
    places = {place.name: place for place in queue.fleet.hosts(campaign.path)}
    assert (places["idle"].agents, places["idle"].attempts, places["idle"].use) == (1, 0, None)
    assert (places["gone"].agents, places["gone"].banned) == (0, "sold")
    assert "banned: sold" in taskq.out("hosts")
    assert taskq.refused("hosts", "/nope")[0] == 66
    assert queue.fleet.failures("/c") == []
    assert taskq("failures", "/c", "--judge", "class").stderr == "There are none.\n"


def test_sample_says_of_how_many_attempts_it_is(
    planted: Campaign,
    queue: Client,
    hire: Hire,
    taskq: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a small campaign next to has not, the large one has; nobody takes it for all."""
    small = queue.create_campaign("/c/small")
    small.seed([{}])
    worker = hire("/c/small")
    worker.done(worker.claim()[0])
    ended = sum(place.attempts for place in queue.fleet.hosts("/c"))
    assert queue.fleet.hosts("/c")[0].sample == SampleSize(ended, ended)
    assert f"\nSeen: all {ended:,} attempts.\n" in taskq.out("hosts", planted.path)
    monkeypatch.setattr("taskq.diagnosis.sample.MOST", 400)
    hosts = queue.fleet.hosts("/c")
    assert sum(place.attempts for place in hosts) == 400
    assert hosts[0].sample == SampleSize(400, ended)
    output = " ".join(taskq.out("sites", "/c").split())
    assert f"Seen: the latest 400 of {ended:,} attempts, in the order of their tasks; few" in output
    of = {"attempts": 400, "whole": ended, "until": None}
    assert taskq.json("sites", "/c")[0]["sample"] == of


def test_explanation_names_each_of_the_three(
    planted: Campaign, queue: Client, postgres: Postgres, taskq: CommandLine
) -> None:
    """What is broken comes before the proposal of more agents, which would not mend it."""
    change = "update taskq.campaign set handler = '{}'; update taskq.counter set failed = 48"
    postgres.execute(change)
    found = {reason.code: reason for reason in planted.explain().reasons}
    codes = [*found]
    assert codes[:3] == ["slow-site", "failing-host", "failed"]
    assert [reason.lost for reason in found.values()][3:] == [0] * (len(codes) - 3)
    assert found["failed"].text.startswith(
        "48 tasks failed for good; signal-11 (atom 17 is too near): the tasks' fault: "
    )
    assert list(found["failed"].commands) == [
        "taskq failures /c",
        """taskq tasks --where 'class = "signal-11"' /c""",
        "taskq retry --error-class signal-11 /c",
    ]
    bad = found["failing-host"]
    assert "most often: exit-127: ended by exit-127. Repair" in bad.text, (
        "what to repair, before the ban"
    )
    assert bad.commands[0] == "taskq failures /c"
    assert bad.commands[1].startswith("taskq host ban --why 'exit-127: ")
    assert "slowed" not in codes, "the same cause"
    assert "without it the rest takes 1." in found["slow-site"].text
    output = taskq.out("explain", "/c")
    assert output.count("taskq site list /c") == 1
    assert "Tasks, hosts and sites" not in output
    queue.fleet.ban("host", "n17", why="no library", until=timedelta(days=1))
    reasons = planted.explain().reasons
    assert [reason.code for reason in reasons][:2] == ["slow-site", "failed"]
    (banned,) = (reason for reason in reasons if "n17" in reason.text)
    assert "banned: no library" in banned.text or "no library. Lift the ban" in banned.text
    left = planted.status().waiting
    postgres.execute("update taskq.counter set waiting = waiting - %s", [left])
    (end,) = planted.explain().reasons
    assert "They fail again until that is repaired" in end.text
    assert "taskq retry /c" not in end.commands
    assert end.commands[-1] == "taskq retry --error-class signal-11 /c"


def test_explanation_names_a_ban_after_its_agents_have_left(
    planted: Campaign, queue: Client, postgres: Postgres
) -> None:
    """With the command that lifts it; it has cost nothing since."""
    postgres.execute("update taskq.campaign set handler = '{}'")
    queue.fleet.ban("host", "n17", why="no library")
    postgres.execute("update taskq.session set ended_at = now() where host = 'n17'")
    (banned,) = (reason for reason in planted.explain().reasons if reason.code == "banned-host")
    assert banned.text.startswith("Host n17 is banned until it is lifted: no library. Lift")
    assert (banned.lost, list(banned.commands)) == (0, ["taskq host unban n17"])
