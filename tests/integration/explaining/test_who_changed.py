"""`taskq explain` says who changed a campaign, where that is why its tasks fail or wait."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from taskq import Campaign, Client, Handler
from taskq.diagnosis.reasons import Reason
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, value
from tests.helpers.usage import sum_up
from tests.integration.explaining.support import Make, explained, only

HOSTS = ("n1", "n2", "n3", "n4")
DOKC = Handler("command", argv=("dokc", "{n}"))


def change(postgres: Postgres) -> dict[str, Any]:
    """Return the last change of /x, as it is kept."""
    row = postgres.execute(
        "select a.began_at, case a.verb when 'change' then a.what else array['status'] end as what"
        "  from taskq.act a where a.path = '/x' order by a.act_id desc limit 1"
    ).fetchone()
    assert row is not None
    return row


def reason(campaign: Campaign, code: str) -> Reason:
    """Return the reason of a kind."""
    (found,) = [it for it in explained(campaign).reasons if it.code == code]
    return found


def test_failures_after_a_change_name_it_with_its_author(
    make: Make, hire: Hire, queue: Client, postgres: Postgres
) -> None:
    """And the command that shows it; failures before it do not."""
    campaign = make("/x", tasks=400)
    agents = [hire("/x", host=name) for name in HOSTS]
    for agent in agents:
        for task in agent.claim(15):
            agent.done(task)
    sum_up(postgres)
    campaign.change(replace(campaign.spec(), handler=Handler("command", argv=("dokc", "{n}"))))
    for agent in agents:
        for task in agent.claim(15):
            agent.fail(task, "exit-127", retry=False)
    sum_up(postgres)
    found = reason(queue.campaign("/"), "failed")
    kept, login = change(postgres), value(postgres, "select session_user")
    assert kept["what"] == ["handler"]
    assert ", after /x was changed at 20" in found.text
    assert f"by {login} (handler)" in found.text
    assert found.since is not None
    assert found.since > kept["began_at"]
    assert "taskq campaign changes /x" in found.commands
    postgres.execute("update taskq.act set began_at = began_at + interval '1 hour'")
    assert "was changed" not in reason(queue.campaign("/"), "failed").text


@pytest.mark.parametrize(
    ("code", "what", "change_it"),
    [
        ("tags", ["requires"], lambda it: it.change(replace(it.spec(), requires=("gpu",)))),
        ("tags", ["cores"], lambda it: it.change(replace(it.spec(), cores=512))),
        ("max-running", ["max_running"], lambda it: it.change(replace(it.spec(), max_running=1))),
        ("paused", ["status"], Campaign.pause),
    ],
)
def test_tasks_that_wait_since_a_change_say_since_when_and_by_whom(
    code: str,
    what: list[str],
    change_it: Callable[[Campaign], object],
    make: Make,
    hire: Hire,
    queue: Client,
    postgres: Postgres,
) -> None:
    """Of settings only where the last change is of what they wait for."""
    campaign = make("/x")
    hire("/x", host="n1").claim()
    change_it(campaign)
    kept = change(postgres)
    found = reason(queue.campaign("/"), code)
    assert (found.since, kept["what"]) == (kept["began_at"], what)
    login = value(postgres, "select session_user")
    by = f"by an operator ({login})." if code == "paused" else f"by {login} ({what[0]})."
    assert by in found.text
    campaign.change(replace(campaign.spec(), description="other"))
    found = reason(queue.campaign("/"), code)
    assert "was changed" not in found.text
    assert found.since == (kept["began_at"] if code == "paused" else None)


def test_inputs_that_change_together_are_one_change(
    make: Make, queue: Client, postgres: Postgres, tmp_path: Path
) -> None:
    """A change of yesterday explains nothing of today."""
    campaign = make("/x")
    (tmp_path / "receptor").write_text("ATOM")
    campaign.add_input(tmp_path / "receptor")
    assert change(postgres)["what"] == ["input receptor"]
    campaign.remove_input("receptor")
    assert change(postgres)["what"] == ["input receptor"]
    (row,) = queue.queries.rows("explain_changes", path="/", limit=9)
    assert row["campaign"] == "/x"
    postgres.execute("update taskq.act set ended_at = ended_at - %s", [timedelta(days=2)])
    assert queue.queries.rows("explain_changes", path="/", limit=9) == []


def test_explanation_of_a_campaign_that_paused_itself_says_who_changed_its_program(
    make: Make, hire: Hire, postgres: Postgres
) -> None:
    """That is seldom chance; other changes are not mentioned."""
    campaign = make()
    hire("/c")
    said = {}
    for name in ("weight", "handler"):
        spec = campaign.spec()
        other = replace(spec, weight=2.0) if name == "weight" else replace(spec, handler=DOKC)
        campaign.change(other)
        postgres.execute(
            "update taskq.campaign set status = 'paused', paused_why = 'no dokc' where path = '/c'"
        )
        said[name] = only(campaign)
    assert "was changed" not in said["weight"].text
    assert "no dokc; /c was changed at " in said["handler"].text
    assert "(handler" in said["handler"].text
    commands = ["taskq failures /c", "taskq campaign changes /c", "taskq campaign resume /c"]
    assert list(said["handler"].commands) == commands


def test_campaigns_that_were_cancelled_today_are_named_above_with_what_brings_them_back(
    make: Make, queue: Client
) -> None:
    """The last one, until it is resumed or gone; a colleague may have mistaken the path."""
    make("/top/kept")
    for path in ("/top/a", "/top/b"):
        campaign = make(path)
        campaign.pause()
        campaign.cancel()
    top = queue.campaign("/top")
    found = reason(top, "cancelled")
    assert re.fullmatch(
        r"/top/b was cancelled at \S+Z by taskq, the last of 2 campaigns within a day\.", found.text
    )
    assert found.blocks is False
    assert list(found.commands) == [
        "taskq campaign resume /top/b",
        "taskq retry /top/b --status cancelled",
    ]
    assert "cancelled" not in {it.code for it in explained(queue.campaign("/top/kept")).reasons}
    queue.campaign("/top/b").resume()
    assert reason(top, "cancelled").text.startswith("/top/a was cancelled at ")
    queue.campaign("/top/a").remove()
    assert "cancelled" not in {it.code for it in explained(top).reasons}


def codes(campaign: Campaign) -> set[str]:
    """Return the codes of all reasons."""
    return {it.code for it in explained(campaign).reasons}


def test_tasks_cancelled_by_a_filter_are_named_with_who_did_it(
    make: Make, postgres: Postgres, queue: Client
) -> None:
    """With the filter and what brings them back; not where it was done elsewhere, or long ago."""
    make("/x", tasks=9).cancel(where="payload.n >= 4")
    make("/other", tasks=1)
    found = reason(queue.campaign("/"), "tasks-cancelled")
    login = value(postgres, "select session_user")
    assert found.text.startswith("5 tasks of /x were cancelled at 20")
    assert found.text.endswith(f" by {login} (payload.n >= 4).")
    assert found.commands[-1] == "taskq retry /x --status cancelled"
    assert "tasks-cancelled" not in codes(queue.campaign("/other"))
    postgres.execute("update taskq.act set ended_at = ended_at - interval '25 hours'")
    assert "tasks-cancelled" not in codes(queue.campaign("/"))


def test_cancelled_tasks_are_named_until_they_are_back(make: Make, queue: Client) -> None:
    """Others that were cancelled before them are not brought back by what is proposed."""
    campaign = make("/x", tasks=9)
    campaign.cancel(where="payload.n = 0")
    campaign.retry(status="cancelled")
    assert "tasks-cancelled" not in codes(queue.campaign("/"))
    campaign.cancel(where="payload.n = 1")
    campaign.cancel(below=False)
    found = reason(queue.campaign("/"), "tasks-cancelled")
    assert "cancelled at" in found.text
    campaign.retry(status="cancelled")
    make("/y", tasks=3)
    campaign.cancel(where="payload.n < 3")
    campaign.cancel(keys=[next(iter(campaign.tasks("waiting"))).key])
    assert len(reason(queue.campaign("/"), "tasks-cancelled").commands) == 1
    campaign.remove()
    assert "tasks-cancelled" not in codes(queue.campaign("/"))


def test_campaign_that_was_cancelled_is_named_once(make: Make, queue: Client) -> None:
    """Its tasks were cancelled with it."""
    make("/x", tasks=2).cancel()
    assert {"cancelled", "tasks-cancelled"} & codes(queue.campaign("/")) == {"cancelled"}


def test_done_tasks_that_were_retried_are_named(make: Make, hire: Hire, queue: Client) -> None:
    """With who did it, as long as they have not ended again; a retry of failed ones is no news."""
    campaign = make("/x", tasks=3)
    agent = hire("/x")
    done, failed, _ = agent.claim(3)
    agent.done(done)
    agent.fail(failed, "exit-1", retry=False)
    assert campaign.retry(status="failed") == 1
    assert "done-retried" not in codes(queue.campaign("/"))
    assert campaign.retry(status="done") == 1
    found = reason(queue.campaign("/"), "done-retried")
    assert found.text.startswith("1 task of /x was retried though done at 20")
    campaign.cancel(below=False)
    assert "done-retried" not in codes(queue.campaign("/"))
