"""Results that lack what their campaign requires, on a real queue with real agents."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from taskq import Campaign, CampaignSpec, Client, Handler, RetryPolicy, Seed
from taskq.db.audit import audit
from taskq_agent.required import value_at
from tests.helpers.command_line import CommandLine
from tests.helpers.paths import PAYLOADS
from tests.helpers.postgres import Postgres, value

ONCE = RetryPolicy(max_attempts=1, backoff_s=0)
SAY = Handler("command", argv=("sh", "-c", "printf '%s' '{say}'"))
#: What a program prints, and whether that is a result with a score.
SAYS = {
    "good": ('{"score": -8.5}', True),
    "null": ('{"score": null}', False),
    "cut": ('{"score": -8.5', False),
    "none": ("", False),
}


def make(queue: Client, handler: Handler, **settings: Any) -> Campaign:
    return queue.create_campaign(CampaignSpec("/c", handler=handler, retry=ONCE, **settings))


def ends(campaign: Campaign, keys: list[str]) -> dict[str, tuple[str, str | None]]:
    """Return outcome and class of the last attempt of each task."""
    last = {key: campaign.attempts(key)[-1] for key in keys}
    return {key: (str(it.outcome), it.error_class) for key, it in last.items()}


def test_success_without_what_is_required_fails_and_shows_its_result(
    queue: Client, taskq: CommandLine
) -> None:
    """Without the setting all four were done, and there was nothing to rank."""
    campaign = make(queue, SAY, require=("score number",))
    campaign.seed([Seed({"say": said}, key) for key, (said, _) in SAYS.items()])
    taskq.out("agent", "run", "--campaign", "/c", "--slots", "1", "--until-empty")
    assert ends(campaign, [*SAYS]) == {
        key: ("done", None) if good else ("failed", "result-incomplete")
        for key, (_, good) in SAYS.items()
    }
    assert [it.key for it in campaign.results()] == ["good"]
    cut = campaign.attempts("cut")[-1]
    assert cut.result == {"stdout": '{"score": -8.5'}, "the result stays in the attempt"
    assert "score is missing" in (cut.error or "")
    assert [*audit(queue.database, "/c")] == []


@pytest.mark.parametrize("kind", ["command", "process", "python"])
def test_each_task_of_a_start_is_checked(
    queue: Client, taskq: CommandLine, tmp_path: Path, kind: str
) -> None:
    program = str(PAYLOADS / "batcher.py")
    words = {"command": ["file", "{tasks}"], "process": ["lines", "1"]}
    handler = (
        Handler("python", target="batcher:one_by_one", batch=10)
        if kind == "python"
        else Handler(kind, argv=(sys.executable, program, *words[kind]), batch=10)
    )
    wanted = "n number <= 2"
    campaign = make(queue, handler, require=(wanted,))
    log = str(tmp_path / "starts")
    campaign.seed([Seed({"n": n, "log": log}, f"t{n}") for n in (1, 2, 3, 4)])
    options = ["--path", str(PAYLOADS)] if kind == "python" else []
    taskq.out("agent", "run", "--campaign", "/c", "--slots", "1", "--until-empty", *options)
    assert ends(campaign, ["t1", "t2", "t3", "t4"]) == {
        "t1": ("done", None),
        "t2": ("done", None),
        "t3": ("failed", "result-incomplete"),
        "t4": ("failed", "result-incomplete"),
    }


def test_required_results_are_set_changed_and_shown_as_other_settings(
    queue: Client, taskq: CommandLine
) -> None:
    taskq.out(
        *("campaign", "create", "/c", "--output-bytes", "20K", "--require-file", "pose"),
        *("--require-result", "score number <= 0", "--require-result", "pose.energy"),
        *("--", "true"),
    )
    shown = json.loads(taskq.out("campaign", "show", "/c", "-o", "json"))
    assert shown["results"]["require"] == ["score number <= 0", "pose.energy"]
    assert shown["results"]["require_files"] == ["pose"]
    assert "score number <= 0 pose.energy" in taskq.out("campaign", "show", "/c")
    taskq.out("campaign", "change", "/c", "--require-result", "", "--require-file", "")
    spec = queue.campaign("/c").spec()
    assert (spec.require, spec.require_files) == ((), ())


@pytest.mark.parametrize("text", ["score maybe", "a\nb", "a >= x", "a text <= 1 >= 2", "", " "])
def test_database_keeps_no_requirement_that_agents_could_not_read(
    queue: Client, postgres: Postgres, text: str
) -> None:
    """A login can change campaigns by SQL."""
    make(queue, SAY)
    spec = json.dumps({"require": [text]})
    with pytest.raises(Exception, match="campaign_require_form"):
        postgres.execute("select taskq.change_campaign('/c', %s)", (spec,))


def test_required_name_means_the_same_as_where_commands_rank(postgres: Postgres) -> None:
    results = [{"a": {"b": 1}}, {"a.b": 2, "a": {"b": 1}}, {"a": [1]}, {"a": {"b.c": 3}}, {"": 1}]
    names = ["a", "a.b", "a.b.c", "a.0", "", ".", "a."]
    for result in results:
        for name in names:
            found = value(postgres, "select taskq.value_at(%s, %s)", Jsonb(result), name)
            assert found == value_at(result, name), (result, name)
