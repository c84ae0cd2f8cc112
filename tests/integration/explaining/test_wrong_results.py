"""`taskq explain` on hosts whose results cannot be right, and the remedy that it proposes."""

from __future__ import annotations

import shlex
from collections import Counter

import pytest

from taskq import Campaign, Client, Seed
from taskq.db.statements import Statements
from taskq.diagnosis.facts import read_facts
from taskq.diagnosis.odd_readings import FRESH_S, kept_odd_results, read_odd_results
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.integration.explaining.support import Make, explained

HOSTS = 5
TASKS = 100


@pytest.fixture(params=["constant-results", "odd-results"])
def wrong(request: pytest.FixtureRequest, make: Make, hire: Hire) -> tuple[Campaign, str]:
    """Give a campaign in which the results of one of five hosts are wrong, and in what way."""
    campaign = make("/c", tasks=TASKS)
    agents = [hire("/c", host=f"n{number}") for number in range(HOSTS)]
    for number in range(TASKS):
        (task,) = agents[number % HOSTS].claim()
        energy = -float(number * 7919 % 97)
        if number % HOSTS == 2:
            energy = 0.0 if request.param == "constant-results" else energy + 900.5
        agents[number % HOSTS].done(task, {"energy": energy})
    return campaign, request.param


@pytest.mark.thorough
@pytest.mark.both_transports
def test_wrong_results_are_named_and_the_remedy_has_them_computed_again(
    wrong: tuple[Campaign, str], queue: Client, hire: Hire, taskq: CommandLine
) -> None:
    """Also after the campaign's end. The command asks first. Old results stay in the history."""
    campaign, code = wrong
    (reason,) = (reason for reason in explained(campaign).reasons if reason.code == code)
    assert "energy" in reason.text
    what = "constant" if code == "constant-results" else "far from those of other hosts"
    assert reason.commands[0] == (
        f"taskq host ban --why 'results of /c are {what}' --until 1d --campaign /c n2"
    )
    assert reason.figures == {"campaign": "/c", "host": "n2", "results": TASKS // HOSTS}
    place = next(place for place in queue.fleet.hosts("/c") if place.name == "n2")
    assert "results cannot be right" in place.verdict
    remedy = shlex.split(reason.commands[-1])[1:]
    code, error = taskq.refused(*remedy)
    assert "Retry 20 done tasks of /c itself? Their results are withdrawn." in error
    assert taskq.json(*remedy, "--dry-run")["tasks"] == 20
    assert campaign.status().done == TASKS
    assert taskq.json(*remedy, "--yes")["tasks"] == 20
    assert [reason for reason in explained(campaign).reasons if "results" in reason.code] == []
    heir = hire("/c", host="n4")
    for number, task in enumerate(heir.claim(30)):
        heir.done(task, {"energy": -float(number)})
        outcomes = [attempt.outcome for attempt in campaign.attempts(task.key)]
        assert outcomes == ["withdrawn", "done"]
    assert campaign.status().done == TASKS
    assert [reason for reason in explained(campaign).reasons if "results" in reason.code] == []


@pytest.mark.thorough
def test_host_that_is_wrong_in_several_campaigns_is_to_be_banned_for_all(
    make: Make, hire: Hire, queue: Client
) -> None:
    """A ban for one of them hides only that one."""
    for path in ("/c", "/d"):
        agents = [hire("/", host=f"n{number}") for number in range(HOSTS)]
        its = make(path, tasks=TASKS)
        for agent in agents:
            agent.campaign = its.campaign_id
        for number in range(TASKS):
            (task,) = agents[number % HOSTS].claim()
            energy = 0.0 if number % HOSTS == 2 else -float(number * 7919 % 97)
            agents[number % HOSTS].done(task, {"energy": energy})
    found = explained(queue.campaign("/")).reasons
    bans = [it.commands[0] for it in found if it.code == "constant-results"]
    assert len(bans) == 2
    assert not [line for line in bans if "--campaign" in line]
    queue.fleet.ban("host", "n2", why="x", campaign="/c")
    found = explained(queue.campaign("/")).reasons
    lines = [line for it in found if it.code == "constant-results" for line in it.commands]
    assert len([line for line in lines if " ban " in line]) == 1


@pytest.mark.thorough
def test_site_whose_hosts_are_all_wrong_is_one_reason_and_is_to_be_banned(
    make: Make, hire: Hire, queue: Client, taskq: CommandLine
) -> None:
    """The retry that follows withdraws the results of all its hosts."""
    campaign = make("/c", tasks=120)
    agents = [hire("/c", host=f"n{number}", site=f"s{number // 2}") for number in range(8)]
    for number in range(120):
        (task,) = agents[number % 8].claim()
        energy = -float(number * 7919 % 97) + 900.5 * (number % 8 in {2, 3})
        agents[number % 8].done(task, {"energy": energy})
    (reason,) = (it for it in explained(campaign).reasons if it.code == "odd-results")
    assert "at site s1 (hosts n2, n3) are far from those of other sites" in reason.text
    ban, retry = reason.commands
    assert ban.startswith("taskq site ban ")
    assert ban.endswith(" --campaign /c s1")
    assert taskq.json(*shlex.split(retry)[1:], "--dry-run")["tasks"] == 30
    sites = {it.name: bool(it.wrong) for it in queue.fleet.findings("/c", limit=1, ended=120).sites}
    assert sites == {"s0": False, "s1": True, "s2": False, "s3": False}
    queue.fleet.ban("site", "s1", why="x")
    (reason,) = (it for it in explained(campaign).reasons if it.code == "odd-results")
    assert reason.commands == [retry]


def test_results_that_moved_everywhere_are_dated_within_minutes(
    make: Make, hire: Hire, queue: Client
) -> None:
    """No host is accused: another release of the program, say, writes other units."""
    campaign = make("/c", tasks=120, best="lowest result.energy")
    agents = [hire("/c", host=f"n{number}") for number in range(HOSTS)]
    for number in range(100):
        (task,) = agents[number % HOSTS].claim()
        energy = -float(number % 7) - 90 * (number >= 50)
        agents[number % HOSTS].done(task, {"energy": energy})
    found = {it.code: it for it in explained(campaign).reasons}
    assert not [code for code in found if code.startswith(("slow-", "odd-"))]
    moved = found["results-moved"]
    rows = queue.queries.rows("latest_results", path="/c", most=1_000)
    claims = sorted(at for row in rows for at in row["claims"])
    assert len(claims) == sum(len(row["runs"]) for row in rows) == 100
    assert moved.since is not None
    assert claims[45] < moved.since < claims[55]
    assert "their mean is -92.9" in moved.text
    assert "look at what changed then" in moved.text


def test_results_that_moved_with_the_tasks_are_explained_by_these(make: Make, hire: Hire) -> None:
    """A file that lists its tasks by groups says nothing of the program."""
    campaign = make("/c", tasks=0, best="lowest result.energy")
    campaign.seed({"n": n, "set": "actives" if n < 50 else "decoys"} for n in range(120))
    agents = [hire("/c", host=f"n{number}") for number in range(HOSTS)]
    for number in range(100):
        (task,) = agents[number % HOSTS].claim()
        agents[number % HOSTS].done(task, {"energy": -float(number % 7) - 90 * (number >= 50)})
    found = {it.code: it for it in explained(campaign).reasons}
    text = found["results-moved"].text
    assert 'set was "actives" and is "decoys". Their order explains this.' in text
    assert "look at what changed" not in text


@pytest.mark.thorough
def test_late_host_with_tasks_of_low_priority_is_not_accused(
    queue: Client, make: Make, hire: Hire
) -> None:
    """Its results are all worse than those of tasks next to them in the file."""
    campaign = make("/c", tasks=0)
    low = range(0, 400, 8)
    campaign.seed(Seed({"n": n}, f"n={n}", priority=int(n not in low)) for n in range(400))
    early = [hire("/c", host=f"n{number}") for number in range(HOSTS)]
    for number in range(400 - len(low)):
        (task,) = early[number % HOSTS].claim()
        early[number % HOSTS].done(task, {"energy": -900.0 - task.payload["n"]})
    late = hire("/c", host="late")
    for number in range(len(low)):
        agent = late if number % 4 else early[number % HOSTS]
        (task,) = agent.claim()
        agent.done(task, {"energy": -float(task.payload["n"])})
    assert campaign.status().done == 400
    assert read_odd_results(queue.queries, "/c").places == []


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the statements that are run, by name."""
    run, counts = Statements.rows, Counter[str]()

    def counting(self: Statements, name: str, /, **values: object) -> list[dict[str, object]]:
        counts[name] += 1
        return run(self, name, **values)

    monkeypatch.setattr(Statements, "rows", counting)
    return counts


def test_explanation_reads_each_fact_once_and_only_what_it_shows(
    make: Make, hire: Hire, asked: Counter[str]
) -> None:
    """Counts, attempts and results of a campaign; of a task no results, of most no attempts."""
    campaign = make(tasks=3)
    agent = hire("/c")
    agent.done(agent.claim()[0], {"energy": 1.0})
    agent.fail(agent.claim()[0], "exit-1", retry=False)
    by_status = {task.status: task.key for task in campaign.tasks()}
    samples = {"latest_attempts", "failing_tasks", "latest_results"}
    for key, read in [
        (None, samples),
        (by_status["waiting"], set()),
        (by_status["done"], set()),
        (by_status["failed"], {"latest_attempts", "failing_tasks"}),
    ]:
        asked.clear()
        campaign.explain(key)
        assert asked.keys() & samples == read
        assert asked["counts"] + asked["notable_counts"] == (2 if key and read else 1)
        assert max(asked[name] for name in samples) <= 1


@pytest.mark.thorough
@pytest.mark.usefixtures("wrong")
def test_view_that_refreshes_reads_results_once_a_minute(
    queue: Client, asked: Counter[str]
) -> None:
    """Each path apart; what it shows stays."""
    now = 0.0
    read_odd = kept_odd_results(lambda: now)
    for second in range(0, 2 * int(FRESH_S), 5):
        now = float(second)
        findings = read_facts(queue.queries, "/c", read_odd=read_odd).findings
        assert findings is not None
        assert [odd.name for odd in findings.odd.places] == ["n2"]
    assert asked["latest_results"] == 2
    read_odd(queue.queries, "/")
    assert asked["latest_results"] == 3
