"""`taskq explain` on results that cannot be ranked: how many, where, since when."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from taskq import Campaign
from taskq.diagnosis.reasons import Reason
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres
from tests.helpers.scripted_agent import ScriptedAgent
from tests.integration.explaining.support import Make, explained

pytestmark = pytest.mark.both_transports(near=["test_results_that_cannot_be_ranked_are_counted"])

BEST = "lowest result.score"


def unranked(campaign: Campaign) -> Reason | None:
    found = {it.code: it for it in explained(campaign).reasons}
    return found.get("unranked-results")


def finish(agent: ScriptedAgent, results: Iterable[Any]) -> None:
    """Let an agent do a task for each result."""
    wanted = list(results)
    for task, result in zip(agent.claim(len(wanted)), wanted, strict=True):
        assert agent.report(task, "done", result=result) == "accepted"


def test_results_that_cannot_be_ranked_are_counted(
    make: Make, hire: Hire, taskq: CommandLine
) -> None:
    """By what is wrong with them; in each view that shows reasons; also after the end."""
    campaign = make("/c", tasks=12, best=BEST)
    agent = hire("/c", host="n1")
    finish(agent, [{"score": -7.5}, {"score": -8.25}])
    assert unranked(campaign) is None
    finish(agent, [None, None, {"score": None}, {"score": "NaN"}, {"scor": 1}])
    reason = unranked(campaign)
    assert reason is not None
    assert reason.text.startswith(
        "5 of the latest 7 results of /c (71 %) cannot be ranked by score: 2 without any result, "
    )
    for words in ("1 with null", "1 with text", "1 without that field"):
        assert words in reason.text
    assert "5 of the latest 7 results" in " ".join(taskq("status", "/c").stdout.split())
    where = "status = done and result.score = null"
    assert reason.commands[0] == f"taskq tasks /c --where '{where}'"
    assert taskq("tasks", "/c", "--where", where).exit_code == 0
    finish(agent, [{"score": -7.5}] * 5)
    reason = unranked(campaign)
    assert reason is not None
    assert reason.text.startswith("5 of the latest 12 results of /c (42 %) cannot be ranked")


def test_host_whose_results_have_no_score_is_named(make: Make, hire: Hire) -> None:
    """It fails nothing, and is not the only one that works."""
    campaign = make("/c", tasks=60, best=BEST)
    good, bad = hire("/c", host="n1"), hire("/c", host="n2")
    for number in range(5):
        finish(good, [{"score": -number - place / 8} for place in range(6)])
        finish(bad, [{"score": None}] * 4)
    reason = unranked(campaign)
    assert reason is not None
    assert "100 % of them are on host n2, where 100 % are so, elsewhere 0 %" in reason.text
    assert "since" not in reason.text


def test_instant_since_which_results_have_no_score_is_named(
    make: Make, hire: Hire, postgres: Postgres
) -> None:
    """On all hosts: a module that was changed at noon, say."""
    campaign = make("/c", tasks=80, best=BEST)
    agents = [hire("/c", host=f"n{number}") for number in range(4)]
    for agent in agents:
        finish(agent, [{"score": -number - 0.5} for number in range(10)])
    postgres.execute("update taskq.attempt set claimed_at = '2026-01-01 11:00Z'")
    for agent in agents:
        finish(agent, [{}] * 8)
    postgres.execute(
        "update taskq.attempt set claimed_at = '2026-01-01 12:00Z'"
        " where claimed_at > '2026-01-01 11:30Z'"
    )
    reason = unranked(campaign)
    assert reason is not None
    assert "since tasks claimed at 2026-01-01T12:00:00Z: 100 % from then on, 0 % before" in (
        reason.text
    )
    assert "on host" not in reason.text


def test_equal_scores_of_all_tasks_are_shown(make: Make, hire: Hire) -> None:
    """Of a campaign that ranks by them."""
    campaign = make("/c", tasks=30, best=BEST)
    agent = hire("/c", host="n1")
    finish(agent, [{"score": 0, "name": f"m{number}"} for number in range(19)])
    assert unranked(campaign) is None
    finish(agent, [{"score": 0}] * 3)
    reason = unranked(campaign)
    assert reason is not None
    assert reason.text.startswith("All the latest 22 results of /c have score 0.")


@pytest.mark.parametrize(
    ("results", "odd"),
    [
        ([{"energy": -1.5}] * 8 + [None] * 3, "3 of the latest 11"),
        ([{"energy": -1.5, "time": 3}] * 8 + [{"energy": "bad"}], "1 of the latest 9"),
        ([None] * 20, None),
        ([{"name": "x"}] * 20, None),
        ([{"name": "x"}] * 12 + [{"energy": 1}] * 8, None),
        ([{"energy": 1.5}] * 30, None),
    ],
)
def test_campaign_that_does_not_rank_is_judged_by_its_majority(
    results: list[Any], odd: str | None, make: Make, hire: Hire
) -> None:
    """Results without a number are odd only where most have one."""
    campaign = make("/c", tasks=40)
    finish(hire("/c", host="n1"), results)
    reason = unranked(campaign)
    if odd is None:
        assert reason is None
    else:
        assert reason is not None
        assert reason.text.startswith(f"{odd} results of /c")
        assert "have no number, as the others have" in reason.text
