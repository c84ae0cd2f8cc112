"""Campaigns from the command line: create, show, change, steer, list, remove."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from taskq import Campaign, Client
from taskq.model.errors import Conflict
from taskq.model.handler import Handler
from taskq.model.views import Status
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, silence

pytestmark = pytest.mark.both_transports

STATUS_FIELDS = {field.name for field in fields(Status)} | {"finished"}


def test_options_say_all_that_a_campaign_is(taskq: CommandLine, queue: Client) -> None:
    """A campaign can be described without a file."""
    taskq.out(
        *["campaign", "create", "/a/b", "--description", "trial", "--time-limit", "60"],
        *["--max-attempts", "5", "--max-losses", "2", "--backoff", "1", "--backoff-max", "8"],
        *["--max-running", "40", "--max-running-per-site", "7"],
        *["--weight", "2.5", "--require", "gpu", "--require", "mem>=16"],
        *["--param", "e=8", "--param", "target=CDK2", "--", "dock", "{ligand}", "{params.e}"],
    )
    spec = queue.campaign("/a/b").spec()
    assert spec.handler == Handler("command", argv=("dock", "{ligand}", "{params.e}"))
    assert spec.params == {"e": 8, "target": "CDK2"}
    assert (spec.retry.max_attempts, spec.retry.max_losses) == (5, 2)
    assert (spec.retry.backoff_s, spec.retry.backoff_max_s) == (1, 8)
    assert (spec.description, spec.time_limit_s) == ("trial", 60)
    assert (spec.max_running, spec.max_running_per_site) == (40, 7)
    assert (spec.weight, spec.requires) == (2.5, ("gpu", "mem>=16"))


@pytest.mark.parametrize(
    ("words", "handler"),
    [
        (
            ["--python", "dock:dock", "--prepare", "dock:prepare"],
            Handler("python", target="dock:dock", prepare="dock:prepare"),
        ),
        (["--process", "--", "server", "-x"], Handler("process", argv=("server", "-x"))),
    ],
    ids=["python", "process"],
)
def test_each_kind_of_handler_can_be_given(
    taskq: CommandLine, queue: Client, words: list[str], handler: Handler
) -> None:
    """Commands, Python callables and long-lived processes."""
    taskq.out("campaign", "create", "/a", *words)
    assert queue.campaign("/a").spec().handler == handler


def test_file_describes_a_campaign_and_the_command_line_wins_over_it(
    taskq: CommandLine, queue: Client, tmp_path: Path
) -> None:
    """One file serves for the real campaign and for trials of it."""
    file = tmp_path / "campaign.toml"
    file.write_text(
        'path = "/real"\n[handler]\nkind = "command"\nargv = ["true"]\n'
        '[retry]\nmax_attempts = 7\n[seed]\nsweep = ["n=1:3"]\n'
    )
    said = taskq.out("campaign", "create", "--campaign-file", file)
    assert f"taskq seed --campaign-file {file}" in said
    assert queue.campaign("/real").spec().retry.max_attempts == 7
    taskq.out("campaign", "create", "/trial", "--campaign-file", file, "--max-attempts", 1)
    assert queue.campaign("/trial").spec().retry.max_attempts == 1


def test_change_leaves_what_is_not_named(taskq: CommandLine, queue: Client) -> None:
    """A change of one thing keeps the others."""
    taskq.out("campaign", "create", "/a", "--time-limit", 60, "--param", "x=1", "--", "true")
    taskq.out("campaign", "change", "/a", "--max-attempts", 9, "--param", "y=2")
    spec = queue.campaign("/a").spec()
    assert (spec.retry.max_attempts, spec.time_limit_s, dict(spec.params)) == (
        *(9, 60),
        {"x": 1, "y": 2},
    )
    taskq.out("campaign", "change", "/a", "--time-limit", "none")
    assert queue.campaign("/a").spec().time_limit_s is None
    taskq.out("campaign", "change", "/a", "--no-front")
    assert not queue.campaign("/a").spec().front


def test_change_replaces_and_takes_back_what_agents_must_be(
    taskq: CommandLine, queue: Client
) -> None:
    """Requirements are replaced as a whole; they and the limit can be taken back."""
    taskq.out("campaign", "create", "/a", "--require", "gpu", "--max-running", 5, "--", "true")
    taskq.out("campaign", "change", "/a", "--require", "mem>=16", "--weight", 3)
    spec = queue.campaign("/a").spec()
    assert (spec.requires, spec.max_running, spec.weight) == (("mem>=16",), 5, 3)
    taskq.out("campaign", "change", "/a", "--require", "", "--max-running", "none")
    spec = queue.campaign("/a").spec()
    assert (spec.requires, spec.max_running, spec.weight) == ((), None, 3)


def test_creating_twice_is_refused_unless_asked_for(taskq: CommandLine, queue: Client) -> None:
    """An existing campaign is not changed by mistake; what it is already stays, and is no error."""
    assert taskq.out("campaign", "create", "/a", "--", "true") == "The campaign /a is created.\n"
    assert "existed already" in taskq.out("campaign", "create", "/a", "--", "true")
    code, error = taskq.refused("campaign", "create", "/a", "--", "false")
    assert code == 3
    assert 'handler.argv ["true"] -> ["false"]; with --exist-ok it is changed instead' in error
    assert queue.campaign("/a").spec().handler == Handler("command", argv=("true",))
    changed = taskq.out("campaign", "create", "/a", "--exist-ok", "--", "false")
    assert "existed and is changed" in changed
    assert queue.campaign("/a").spec().handler == Handler("command", argv=("false",))


def test_show_gives_a_campaign_in_the_shape_of_its_file(taskq: CommandLine) -> None:
    """`campaign show` gives a campaign in the shape of a campaign file."""
    limits = ["--time-limit", 90, "--checkpoint-bytes", "20K", "--checkpoint-every", "10m"]
    taskq.out("campaign", "create", "/a", "--param", "x=1", *limits, "--", "run", "{x}")
    shown = taskq.json("campaign", "show", "/a")
    assert shown["handler"] == {"kind": "command", "argv": ["run", "{x}"]}
    assert (shown["limits"], shown["params"], shown["state"]) == (
        {
            "time_limit_s": 90,
            "max_running": None,
            "max_running_per_site": None,
            "named_limits": [],
            "max_failure_share": 0.9,
            "checkpoint_bytes": 20_480,
            "checkpoint_every_s": 600,
            "output_bytes": None,
            "output_total_bytes": 10_737_418_240,
        },
        {"x": 1},
        "open",
    )
    text = taskq.out("campaign", "show", "/a")
    assert 'command: ["run", "{x}"]' in text
    assert "1 min 30 s" in text
    assert "20,480 bytes, every 10 min" in text


def test_pause_and_resume_say_whether_they_changed_anything(
    taskq: CommandLine, campaign: Campaign
) -> None:
    """A second pause changes nothing and says so."""
    assert taskq.json("campaign", "pause", "/c") == {"path": "/c", "changed": True}
    assert taskq.json("campaign", "pause", "/c")["changed"] is False
    assert campaign.status().state == "paused"
    assert "taskq campaign resume" in taskq.out("status", "/c")
    assert taskq.json("campaign", "resume", "/c")["state"] == "open"


def test_resuming_below_a_paused_campaign_says_that_it_does_not_help(
    taskq: CommandLine, queue: Client
) -> None:
    """Who resumes a child of a paused campaign learns why nothing moves."""
    queue.create_campaign("/a/b")
    queue.campaign("/a").pause()
    queue.campaign("/a/b").pause()
    output = taskq.out("campaign", "resume", "/a/b")
    assert output == (
        "The campaign /a/b is open itself, but paused from above: `taskq campaign resume /a`.\n"
    )


@pytest.mark.thorough
def test_views_name_each_paused_campaign_above_that_keeps_tasks_back(
    taskq: CommandLine, queue: Client
) -> None:
    """By its path, with the command that resumes it."""
    campaign = queue.create_campaign("/a/b/c")
    campaign.submit({"n": 1})
    queue.campaign("/a").pause()
    above = r"1 task waits: /a \(a campaign above\) was paused by an operator \([^)]+\)\."
    assert re.search(above + r"\n +\$ taskq campaign resume /a\n", taskq.out("status", "/a/b/c"))
    campaign.pause()
    commands = [f"$ taskq campaign resume {path}" for path in ("/a", "/a/b/c")]
    assert all(f" {it}\n" in taskq.out("status", "/a/b/c") for it in commands)
    assert taskq.json("status", "/a/b/c")["closed_by"] == ["/a", "/a/b/c"]
    assert "/a, /a/b/c" in taskq.out("campaign", "show", "/a/b/c")
    with taskq.process("watch", "/a/b/c", "--interval", "0.1") as watching:
        assert watching.stdout is not None
        assert re.search(f"  {above}  .* /a  .* /a/b/c\n", watching.stdout.readline())
    queue.campaign("/a").cancel()
    assert taskq.json("status", "/a/b")["closed_by"] == ["/a"]
    assert taskq.out("status", "/a/b").startswith("/a/b  cancelled  100.0 % of 1 task\n")
    with pytest.raises(Conflict, match="cancelled: /a; resume it before seeding"):
        campaign.submit({"n": 2})
    code, error = taskq.refused("retry", "/a/b/c", "--status", "cancelled")
    assert (code, "cancelled: /a; resume it before retrying" in error) == (3, True)


def test_cancelling_a_campaign_needs_a_yes(taskq: CommandLine, campaign: Campaign) -> None:
    """Without anybody to ask, nothing happens; a key is a yes."""
    campaign.seed({"n": n} for n in range(3))
    code, error = taskq.refused("cancel", "/c")
    assert (code, campaign.status().waiting) == (2, 3)
    assert "--yes" in error
    key = next(campaign.tasks()).key
    expected = {"path": "/c", "dry_run": False}
    assert taskq.json("cancel", "/c", "--key", key) == expected | {"tasks": 1}
    assert campaign.status().state == "open"
    assert taskq.json("campaign", "cancel", "/c", "--yes") == expected | {"tasks": 2}
    assert campaign.status().state == "cancelled"


def test_removing_a_campaign_needs_a_yes(
    taskq: CommandLine, campaign: Campaign, queue: Client
) -> None:
    """What cannot be undone is not done by mistake, and then all of it goes."""
    campaign.seed({"n": n} for n in range(3))
    queue.create_campaign("/c/d/e").seed([{"n": 4}])
    code, error = taskq.refused("campaign", "rm", "/c")
    assert (code, "2 campaigns below and 4 tasks" in error) == (2, True), error
    assert campaign.status().total == 4
    assert taskq.json("campaign", "rm", "/c", "--yes") == {"path": "/c", "tasks": 4}
    assert taskq.json("ls") == []


def test_root_cannot_be_removed(taskq: CommandLine, campaign: Campaign) -> None:
    """`rm /` is refused, even with a yes."""
    assert taskq.refused("campaign", "rm", "/", "--yes")[0] == 2
    assert campaign.status().state == "open"


def test_ls_and_tree_give_the_fields_of_a_status(taskq: CommandLine, queue: Client) -> None:
    """Names in JSON are those of the dataclass; `ls` counts what is below, `tree` does not."""
    queue.create_campaign("/w/m/x").seed({"n": n} for n in range(5))
    (listed,) = taskq.json("ls", "/w")
    assert listed.keys() == STATUS_FIELDS | {"forecast"}
    assert (listed["path"], listed["waiting"]) == ("/w/m", 5)
    assert [(record["path"], record["waiting"]) for record in taskq.json("tree", "/w")] == [
        *(("/w", 0), ("/w/m", 0)),
        ("/w/m/x", 5),
    ]


def test_tree_is_drawn_depth_first(taskq: CommandLine, queue: Client) -> None:
    """A child stands below its parent, also where names sort before the slash."""
    for path in ("/w/a/x", "/w/a-b", "/w/a/y", "/w/b"):
        queue.create_campaign(path)
    drawn = [line.split(" open")[0].rstrip() for line in taskq.out("tree", "/w").splitlines()]
    assert drawn[1:] == [
        "/w",
        "├── a",
        "│   ├── x",
        "│   └── y",
        "├── a-b",
        "└── b",
    ]


def test_status_shows_tasks_agents_and_commonest_errors(
    taskq: CommandLine, campaign: Campaign, hire: Hire
) -> None:
    """What a campaign manager looks for first, of the campaign and all below it."""
    campaign.seed({"n": n} for n in range(8))
    agent = hire()
    tasks = agent.claim(6)
    agent.done(tasks[0])
    for task, error_class in zip(tasks[1:5], ("x", "y", "y", "z"), strict=True):
        agent.fail(task, error_class, retry=False)
    shown = taskq.json("status", "/")
    assert shown.keys() == STATUS_FIELDS | {
        "agents",
        "agents_left",
        "behind_s",
        "closed_by",
        "failure_classes",
        "forecast",
        "hedges",
        "reasons",
        "refusals",
    }
    assert (shown["done"], shown["failed"], shown["working"], shown["waiting"]) == (1, 4, 1, 2)
    assert shown["agents"] == 1
    assert shown["failure_classes"][0] == {"error_class": "y", "attempts": 2}
    text = taskq.out("status")
    assert "62.5 % of 8 tasks" in text
    assert "2 y" in text


def test_views_show_whether_the_silence_of_agents_is_usual(
    taskq: CommandLine, hire: Hire, postgres: Postgres
) -> None:
    """A live agent sends two heartbeats within half of its lease."""
    agent = hire("/")
    assert taskq.out("status").rstrip().endswith(" at most, as usual")
    assert " late " not in taskq.out("agents")
    silence(postgres, agent.session)
    assert taskq.out("status").rstrip().endswith("1 too long: they count as lost after 1.0 s")
    assert " late " in taskq.out("agents")


# An agent that a wrong call starts all the same ends at once.
AGENT = ("agent", "run", "--until-empty", "--campaign")

WRONG_CALLS: list[tuple[list[str], int, str]] = [
    (["status", "c/d"], 2, "must start with '/', such as /c/d"),
    (["status", "/c d"], 2, "'c d' is not allowed"),
    (["status", "/c\0"], 2, "is not allowed"),
    (["status", "/nope"], 66, "no campaign /nope"),
    (["watch", "/nope"], 66, "no campaign /nope"),
    ([*AGENT, "/nope"], 66, "no campaign /nope"),
    (["recover", "/nope"], 66, "no campaign /nope; `taskq tree`"),
    (["agents", "list", "/nope"], 66, "no campaign /nope; `taskq tree`"),
    (["agents", "drain", "--campaign", "/nope"], 66, "no campaign /nope; `taskq tree`"),
    (["token", "create", "t", "--kind", "site", "--campaign", "/nope"], 66, "/nope; `taskq tree`"),
    (["campaign", "create"], 2, "name the PATH"),
    (["campaign", "create", "/x", "--time-limit", "0", "--", "a"], 2, "seconds above 0"),
    (["campaign", "create", "/x", "--time-limit", "nan", "--", "a"], 2, "or none"),
    (["campaign", "create", "/x", "--time-limit", "soon", "--", "a"], 2, "or none"),
    (["campaign", "create", "/x", "--max-running", "few", "--", "a"], 2, "whole number, or none"),
    (["campaign", "create", "/x", "--max-running", "0", "--", "a"], 2, "max_running"),
    (["campaign", "create", "/x", "--weight", "0", "--", "a"], 2, "weight"),
    (["campaign", "create", "/x", "--require", "mem>16", "--", "a"], 2, "'mem>16' must read"),
    (["campaign", "create", "/x", "--max-attempts", "0", "--", "a"], 2, "max_attempts"),
    (["campaign", "create", "/x", "--", "a", "{params.y}"], 2, "no value for 'y'"),
    (["campaign", "create", "/x", "--", "a", "{"], 2, "is not a placeholder"),
    (["campaign", "create", "/x", "--python", "dock"], 2, "module:function"),
    (["campaign", "create", "/x", "--python", "a:b", "--", "a"], 2, "choose one"),
    (["campaign", "create", "/x", "--prepare", "a:b"], 2, "--python"),
    (["campaign", "create", "/x", "--process"], 2, "after --"),
    (["campaign", "create", "/x", "--param", "y"], 2, "NAME=VALUE"),
    (["campaign", "create", "--campaign-file", "{absent}.toml"], 66, "absent.toml"),
    (["campaign", "change", "/c"], 2, "nothing to change"),
    (["campaign", "change", "/c", "--max-attempts", "0"], 2, "max_attempts"),
    (["campaign", "cancel", "/nope", "--yes"], 66, "no campaign /nope"),
    (["cancel", "/c", "--key", "nope"], 66, "no task with the key 'nope'"),
    (["status", "--output", "xml"], 2, "'xml'"),
    (["status", "--colour"], 2, "--colour"),
    (["watch", "/c", "--interval", "0"], 2, "from 0.1 s to 1 h"),
    (["watch", "/c", "--output", "json"], 2, "jsonl"),
    ([*AGENT, "/c", "--slots", "0"], 2, "at least 1"),
    ([*AGENT, "/c", "--offer", "mem>=64"], 2, "'mem>=64' must read"),
    ([*AGENT, "/c", "--grace", "nan"], 2, "must be a time"),
    ([*AGENT, "/c", "--lease", "0"], 2, "from 1.0 s to 1 d"),
    ([*AGENT, "/c", "--path", "{absent}"], 2, "absent"),
    (["campaign", "create", "/x", "sh", "-c", "true"], 2, "follow after `--`"),
    (["cancel", "/c", "key"], 2, "--key names a task"),
    (["seed", "/c", "{absent}.smii"], 66, "there is no file"),
]


def test_wrong_call_is_refused_in_a_line_and_changes_nothing(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """The error names the thing, its exit code the kind of error, and no campaign appears."""
    for words, code, reason in WRONG_CALLS:
        named = [word.replace("{absent}", str(tmp_path / "absent")) for word in words]
        exit_code, error = taskq.refused(*named)
        assert (exit_code, reason in error) == (code, True), (words, error)
    assert [record["path"] for record in taskq.json("tree")] == ["/", campaign.path]


def test_similar_campaign_is_proposed(taskq: CommandLine, queue: Client) -> None:
    """Level by level; nothing is proposed where one of them is like nothing."""
    for path in ("/wisdom/malaria/1lf3", "/wisdom/plague"):
        queue.create_campaign(path)
    for words in (["status"], ["recover"], ["campaign", "pause"], ["agents", "list"]):
        error = taskq.refused(*words, "/wisdon/maleria/1lf3")[1]
        assert error.endswith("did you mean /wisdom/malaria/1lf3?"), error
    assert "did you mean" not in taskq.refused("status", "/wisdon/xyz")[1]


@pytest.mark.thorough
def test_every_view_shows_why_a_campaign_paused_itself(
    taskq: CommandLine, queue: Client, postgres: Postgres
) -> None:
    """What agents had a say in does not steer the terminal; resuming takes the reason away."""
    queue.create_campaign("/a").seed([{"n": 1}])
    postgres.execute(
        "update taskq.campaign set status = 'paused', paused_why = 'all failed, \x1b[31mbad'"
        " where path = '/a'"
    )
    shown = r"all failed, \x1b[31mbad"
    for words in (["status", "/a"], ["ls"], ["tree"], ["campaign", "show", "/a"]):
        assert shown in taskq.out(*words), words
    with taskq.process("watch", "/a", "--interval", "0.1") as watching:
        assert watching.stdout is not None
        line = watching.stdout.readline()
        assert f"paused itself: {shown}" in line
        assert line.endswith("  $ taskq failures /a  $ taskq campaign resume /a\n")
    with taskq.process("watch", "/", "--interval", "0.1") as watching:
        assert watching.stdout is not None
        line = watching.stdout.readline()
        assert f"  1 task waits in /a: /a paused itself: {shown}. Resume it when that" in line
    status = taskq.out("status", "/")
    assert f"1 task waits in /a: /a paused itself: {shown}. Resume it when that is " in status
    assert "           $ taskq campaign resume /a\n" in status
    for words in (["status", "/a"], ["campaign", "show", "/a"]):
        assert taskq.json(*words)["paused_why"].startswith("all failed"), words
    assert [record["paused_why"] is None for record in taskq.json("tree")] == [True, False]
    taskq.out("campaign", "resume", "/a")
    assert "failed" not in taskq.out("campaign", "show", "/a").replace("max failure", "")
    assert taskq.json("status", "/a")["paused_why"] is None
