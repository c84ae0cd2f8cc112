"""`taskq notify`: report what happens to campaigns by mail, webhook or program."""

from __future__ import annotations

import time
from typing import Any, Final

import click

from taskq import Client
from taskq.diagnosis.events import BY_NAME, EVENTS
from taskq.model.columns import Column
from taskq.model.errors import Conflict, NotFound, Unavailable
from taskq.model.words import counted, duration, instant
from taskq.upkeep.notifications import NotifyEvent, NotifyRule
from taskq.upkeep.texts import sentence
from taskq_cli.display.output import Record, as_record, facts, write_record, write_records
from taskq_cli.display.text import one_line
from taskq_cli.invocation import Invocation
from taskq_cli.options.shared import campaign_option, dry_run_option, limit_option, shared_options
from taskq_cli.options.values import seconds, time_option
from taskq_cli.program import ListGroup

_LOOK_S: Final = 0.2
_SHOWN: Final = 20

_RULES: Final[tuple[Column[Record], ...]] = (  # a narrow terminal drops the last columns first
    Column("name"),
    Column("campaign", lambda rule: rule["path"]),
    Column("state", gives_way=True),
    Column("to", lambda rule: rule["target"], gives_way=True),
    Column("waiting", lambda rule: rule["waiting"] or None),
    Column("given up", lambda rule: rule["given_up"] or None),
    Column("on", lambda rule: ",".join(rule["events"]), gives_way=True),
    Column("last sent", lambda rule: rule["sent_at"]),
)
_EVENTS: Final[tuple[Column[Record], ...]] = (
    Column("noted", lambda event: event["noted_at"]),
    Column("event"),
    Column("status"),
    Column("text", gives_way=True),
)


_AFTER: Final = ", ".join(
    f"{event.name} {duration(event.after_s) if event.after_s else 'at once'}" for event in EVENTS
)


@click.group(cls=ListGroup)
def notify() -> None:
    """Report what happens to campaigns by mail, webhook or program.

    Rules say which events go to whom; `taskq keeper` sends the messages. `list` is the default
    sub-command.

    Example:
      taskq notify list
    """


def _events(_: click.Context, __: click.Parameter, text: str) -> list[str]:
    return [word for word in map(str.strip, text.split(",")) if word]


@notify.command()
@click.argument("name")
@campaign_option("path", required=True, help="Campaign to watch, with all below it.")
@click.option(
    "--on",
    "events",
    callback=_events,
    required=True,
    metavar="EVENT,...",
    help=f"Events to report: {', '.join(BY_NAME)}.",
)
@click.option(
    "--to",
    "target",
    required=True,
    metavar="DEST",
    help="mail:ADDRESS, webhook:https://..., or webhook:NAME or command:NAME: a file in the "
    "keeper's folder.",
)
@click.option(
    "--after",
    "after_s",
    type=seconds(),
    metavar="TIME",
    help=f"Report a state that has lasted for this long, such as 30s or 2h. [default: {_AFTER}]",
)
@shared_options
def add(
    invocation: Invocation,
    *,
    name: str,
    path: str,
    events: list[str],
    target: str,
    after_s: float | None,
) -> None:
    """Add a rule: which events of a campaign to report, and to whom.

    Each event reports reasons of `taskq explain`, with the same text and commands. finished: all
    tasks have ended. paused: the campaign, one above it, or one below it with tasks is paused, by
    somebody or by itself.
    no-agents: tasks wait that no agent can claim, since none serves them, or all are silent,
    leave, lack a tag or skip the campaign. failing: more than half of the latest first attempts in
    a campaign failed. slow: tasks wait, and less than a third as many end as in the hours before.
    trouble: anything else that keeps tasks from running, or is broken. disk: a disk that a keeper
    watches is nearly full, see `taskq keeper --disk`. A rule
    also reports states that began before it. Everybody who can read the queue can read the target:
    use webhook:NAME if the address is secret.

    Example:
      taskq notify add night --campaign /demo --on finished,paused,failing --to mail:ann@example.org
    """
    with invocation.client() as client:
        client.campaign(path)  # raises an error that proposes a similar path
        client.notifications.add(name, path, events, target, after_s=after_s)
        text = (
            f"The rule {name} is added; `taskq notify test {name}` shows whether messages arrive."
        )
        write_record(invocation.output, {"rule": name}, text)
        if not (rule := client.notifications.rule(name)).reached:
            click.echo(f"Messages are not sent yet: {_nobody(rule)}.", err=True)


@notify.command("list")
@limit_option
@shared_options
def list_(invocation: Invocation, limit: int | None) -> None:
    """List the rules, with their waiting and given-up messages.

    Example:
      taskq notify list
    """
    with invocation.client() as client:
        found = client.notifications.list()
    records = (as_record(rule) | {"state": _state(rule)} for rule in found)
    write_records(invocation.output, records, _RULES, limit=limit)


@notify.command()
@click.argument("name")
@limit_option
@shared_options
def show(invocation: Invocation, name: str, limit: int | None) -> None:
    """Show a rule with its latest events, and what became of them.

    Example:
      taskq notify show night
    """
    with invocation.client() as client:
        rule = client.notifications.rule(name)
        found = list(client.notifications.events(name, limit=limit or _SHOWN))
    if invocation.output != "table":
        record = as_record(rule) | {"latest": [*map(_event_record, found)]}
        write_record(invocation.output, record, "")
        return
    write_record("table", {}, _rule_text(rule))
    if found:
        write_record("table", {}, "")
        write_records("table", map(_event_record, found), _EVENTS)


@notify.command()
@click.argument("name")
@dry_run_option
@shared_options
def rm(invocation: Invocation, *, name: str, dry_run: bool) -> None:
    """Remove a rule; its waiting messages are not sent.

    Example:
      taskq notify rm night
    """
    with invocation.client() as client:
        if dry_run:
            waiting = counted(client.notifications.rule(name).waiting, "waiting message")
            would = f"The rule {name} would be removed, with {waiting}; nothing was changed."
            write_record(invocation.output, {"rule": name, "dry_run": True}, would)
            return
        if not client.notifications.remove(name):
            raise NotFound(f"no notification rule {name}; `taskq notify list` shows all")
    write_record(invocation.output, {"rule": name}, f"The rule {name} is removed.")


@notify.command()
@click.argument("name")
@time_option(
    "--timeout",
    "wait_s",
    most=3_600,
    default=60.0,
    text="How long to wait until the message is sent; 0 means not at all.",
)
@shared_options
def test(invocation: Invocation, name: str, wait_s: float) -> None:
    """Send a test message by a rule, and wait for it.

    It goes the same way as all others, so messages that wait after a failure are tried as well.

    Example:
      taskq notify test night
    """
    with invocation.client() as client:
        event_id = client.notifications.test(name)
        record = {"rule": name, "event_id": event_id, "status": "waiting"}
        if not wait_s:
            write_record(invocation.output, record, "The test waits to be sent.")
            return
        status = _wait(client, name, event_id, wait_s)
        target = client.notifications.rule(name).target
    record["status"] = status
    write_record(invocation.output, record, f"Sent to {one_line(target)}.")


def _wait(client: Client, name: str, event_id: str, wait_s: float) -> str:
    """Wait until an event is sent; raise `Unavailable` with the reason if it is not."""
    deadline = time.monotonic() + wait_s
    while True:
        status = client.notifications.status(event_id)
        if status == "sent":
            return status
        rule = client.notifications.rule(name)  # raises if it was removed meanwhile
        if status is None or status == "given up" or (rule.attempts and rule.trouble):
            raise Conflict(
                f"the message was not sent: {one_line(rule.trouble or 'it was given up')}"
            )
        if time.monotonic() >= deadline:
            hint = "" if rule.reached else f": {_nobody(rule)}"
            raise Unavailable(f"the message was not sent within {duration(wait_s)}{hint}")
        time.sleep(_LOOK_S)


def _event_record(event: NotifyEvent) -> dict[str, Any]:
    return as_record(event) | {"text": sentence(event.event, event.figures)}


def _state(rule: NotifyRule) -> str:
    """Return the state of a rule, in a few words."""
    if rule.attempts:
        return f"failed {counted(rule.attempts, 'time')}: {one_line(rule.trouble or '')}"
    if rule.given_up:
        return f"gave up: {one_line(rule.trouble or 'nobody could send it')}"
    return "" if rule.reached else "no keeper sends it"


def _rule_text(rule: NotifyRule) -> str:
    """Return a rule as names and values."""
    sent = rule.sent_from and f", from {one_line(rule.sent_from)}"
    pairs: dict[str, object] = {
        "rule": rule.name,
        "campaign": rule.path,
        "on": ", ".join(rule.events),
        "to": one_line(rule.target),
        "after": None if rule.after_s is None else duration(rule.after_s),
        "made": f"{instant(rule.created_at)}, by {one_line(rule.login)}",
        "waiting": counted(rule.waiting, "event") if rule.waiting else None,
        "given up": counted(rule.given_up, "event") if rule.given_up else None,
        "last sent": rule.sent_at and f"{instant(rule.sent_at)}{sent}",
        "state": _state(rule),
        "next try": f"in {duration(rule.retry_in_s or 0)}" if rule.attempts else None,
    }
    return facts(pairs)


def _nobody(rule: NotifyRule) -> str:
    """Return which command to start so that somebody sends a rule's messages."""
    kind, _, to = rule.target.partition(":")
    how = {
        "mail": "`taskq keeper --smtp URL --mail-from ADDRESS`",
        "command": f"`taskq keeper --programs FOLDER`, with {to} in it",
        "webhook": "`taskq keeper`"
        if ":" in to
        else f"`taskq keeper --webhooks FOLDER`, with {to}",
    }
    return f"no running keeper can send them; start {how[kind]}"
