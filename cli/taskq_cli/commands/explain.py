"""`taskq explain` and `taskq failures`: why tasks do not run, why attempts fail, and what helps."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import click

from taskq import Client
from taskq.diagnosis.bans import PlaceKind
from taskq.diagnosis.blame import FailureVerdict
from taskq.diagnosis.classes import began
from taskq.diagnosis.explaining import explained
from taskq.diagnosis.places import Place
from taskq.diagnosis.reasons import Explanation, cost_text
from taskq.diagnosis.tables.places import about_sample, columns
from taskq.diagnosis.tables.tasks import CAUSES, CLASSES, FAILURES
from taskq.model.columns import Column, without
from taskq.model.errors import NotFound, UsageError
from taskq.model.seed import check_path
from taskq.model.views import FailureCause
from taskq.model.words import command
from taskq_cli.commands.logs import hinting_at_keys
from taskq_cli.display.fleet import MAX_LEFT_AGENTS, place_record, summarize_left_agents
from taskq_cli.display.output import Record, as_record, paragraph, write_record, write_records
from taskq_cli.display.text import one_line
from taskq_cli.invocation import Invocation, campaign_column, campaigns_with
from taskq_cli.options.shared import below_option, limit_option, path_argument, reading_options

VERDICTS: Final = 3
MOST_CAUSES: Final = 20


@click.command()
@path_argument(default="/", metavar="[PATH]")
@click.argument("key", required=False)
@reading_options
def explain(invocation: Invocation, *, path: str, key: str | None) -> None:
    """Explain why tasks do not run, or not faster.

    Explains the campaign PATH with all below it, or its task KEY. Each reason says how many tasks
    it concerns, with the commands that change it or show more. The reasons that block most tasks
    come first, then the most expensive faults: tasks that fail, hosts and sites that fail or are
    slow. The time that it takes does not depend on the number of tasks.

    Examples:
      taskq explain /demo
      taskq explain /demo seed=7
    """
    with invocation.reader() as client:
        if key is None:
            explanation = _explained(client, path)
        else:
            with hinting_at_keys(client, path, key):
                explanation = client.campaign(path).explain(key)
        behind_s = client.behind_s
    if invocation.output == "table":
        sys.stdout.write(_text(explanation))
    else:
        write_record(invocation.output, as_record(explanation) | {"behind_s": behind_s}, "")


def _explained(client: Client, path: str) -> Explanation:
    """Explain without a look at the campaign first, for which a lock could let it wait."""
    try:
        return explained(client.queries, check_path(path))
    except NotFound:
        return client.campaign(path).explain()


def _text(explanation: Explanation) -> str:
    """Return the explanation for people. Commands stay whole, so that people can paste them."""
    what = f"{explanation.path} {explanation.key or ''}".rstrip()
    parts = [paragraph(f"{what}  {explanation.headline}")]
    for number, reason in enumerate(explanation.reasons, 1):
        parts.append(paragraph(reason.full_text, reason.commands, f"{number}. "))
    if explanation.key is None:
        views = (["failures"], ["host", "list"], ["site", "list"])
        there = {proposal for reason in explanation.reasons for proposal in reason.commands}
        shown = [command(*view, names=[explanation.path]) for view in views]
        more = "".join(f"$ {one_line(proposal)}\n" for proposal in shown if proposal not in there)
        if more:
            parts.append(f"Tasks, hosts and sites that fail or take longer than others:\n{more}")
    return "\n".join(parts)


"""Most groups that are shown for a campaign, unless `--limit` says otherwise."""


@click.command()
@path_argument(default="/", metavar="[CAMPAIGN]")
@click.option(
    "--each", is_flag=True, help="List each failed task with its last attempt instead of groups."
)
@click.option(
    "--judge",
    type=click.Choice(["class", "host", "site"]),
    help="Judge the latest attempts instead: the fault of each class, or the hosts or sites that "
    "fail more than others.",
)
@below_option
@limit_option
@reading_options
def failures(
    invocation: Invocation,
    *,
    path: str,
    each: bool,
    judge: str | None,
    below: bool,
    limit: int | None,
) -> None:
    """Group failed attempts by their cause.

    Groups the attempts of CAMPAIGN and all below it that failed, were lost, or were refused by
    hosts that cannot run them, by class of error and message, and for programs by the last line of
    their output. Each group shows attempts by host and the latest attempt. Messages that differ
    only in numbers are the same. An attempt counts even if its task has succeeded since. Below the
    groups is the verdict on the most frequent classes: the fault of the tasks, of hosts, of a site,
    of the campaign, or of chance; with the intervals of shares (confidence 99.9 %), an example and
    what to do next.

    --judge class shows more verdicts. All of --judge read a sample of at most 10,000 of the latest
    attempts.

    Examples:
      taskq failures /demo
      taskq failures /demo --judge class
    """
    if judge is not None:
        if each:
            raise UsageError("--each lists tasks, --judge judges attempts; choose one")
        if not below:
            raise UsageError("--judge covers all campaigns below; leave out --no-below")
        _judged(invocation, path, judge, limit)
        return
    with invocation.reader() as client:
        examples: dict[tuple[str, str], FailureCause] = {}
        where = campaign_column(client, path, below=below)
        if each:
            found = client.campaign(path).failures(below=below)
            write_records(invocation.output, found, [*where, *FAILURES], limit=limit)
        else:
            causes = _noting(_causes(client, path, limit, below=below), examples)
            write_records(invocation.output, causes, [*where, *CAUSES], limit=limit)
        verdicts = [] if each or invocation.output != "table" else client.fleet.failures(path)
    verdicts = [verdict for verdict in verdicts if below or verdict.campaign == path]
    verdicts.sort(key=lambda verdict: verdict.side == "unclear")
    _write_verdicts(verdicts[:VERDICTS], path, examples)


def _noting(
    causes: Iterable[FailureCause], examples: dict[tuple[str, str], FailureCause]
) -> Iterator[FailureCause]:
    """Pass groups on, and note the most frequent one of each class."""
    for cause in causes:
        examples.setdefault((cause.campaign, cause.error_class), cause)
        yield cause


def _write_verdicts(
    verdicts: Iterable[FailureVerdict], path: str, examples: Mapping[tuple[str, str], FailureCause]
) -> None:
    """Write for each class of failures whose fault it is, the evidence, an example, commands."""
    for number, verdict in enumerate(verdicts):
        if not number:
            intro = paragraph(f"Whose fault it is, as shown by {verdict.sample}:")
            sys.stdout.write(f"\n{intro}")
        where = "" if verdict.campaign == path else f" in {verdict.campaign}"
        name = f"{verdict.error_class or '(none)'}{where}{began(verdict)}"
        texts = [f"{name}: {verdict.fault}: {verdict.why}."]
        texts += [f"It costs {cost_text(verdict.cost)}."] if verdict.cost else []
        texts += [f"{ban}: {ban.why}." for ban in verdict.bans[:VERDICTS]]
        commands = [verdict.proposal] if verdict.proposal else []
        if example := examples.get((verdict.campaign, verdict.error_class)):
            key = example.example_key
            error = " | ".join(filter(None, (example.example_error, example.example_line)))
            texts += [f"Such as {key}: {error}"] if error else []
            commands.append(command("logs", names=[verdict.campaign, key]))
        *first, last = texts
        sys.stdout.write("\n" + "".join(map(paragraph, first)) + paragraph(last, commands))
        if verdict.remedy:
            sys.stdout.write(f"When that is repaired:\n  $ {one_line(verdict.remedy)}\n")


def _judged(invocation: Invocation, path: str, by: str, limit: int | None) -> None:
    """Write by class whose fault failures are, or the hosts or sites where attempts failed."""
    verdicts: list[FailureVerdict] = []
    places: list[Place] = []
    output = invocation.output
    with invocation.reader() as client:
        client.campaign(path)
        where, fleet = campaign_column(client, path, below=by == "class"), client.fleet
        if by == "class":
            verdicts = fleet.failures(path, limit=limit or MOST_CAUSES)
        else:
            places = fleet.hosts(path) if by == "host" else fleet.sites(path)
        departed = client.left_agents(path, limit=MAX_LEFT_AGENTS)
    if by == "class":
        write_records(
            output,
            verdicts,
            [*where, *without(CLASSES, "why")],
            limit=limit,
            record=_verdict_record,
        )
    else:
        kind: PlaceKind = "host" if by == "host" else "site"
        shown = without(columns(kind), "agents", "slots", "run", "times", "use")
        shown.append(Column("verdict", gives_way=True))
        bad = [place for place in places if place.bad]
        write_records(output, bad, shown, limit=limit, record=place_record)
    if invocation.output == "table":
        _write_verdicts(verdicts, path, {})
        if places:
            sys.stdout.write(f"\n{paragraph(about_sample(places[0].sample))}")
        if departed:
            click.echo(f"\nAgents: {summarize_left_agents(departed)}.")


def _verdict_record(verdict: FailureVerdict) -> Record:
    return as_record(verdict) | {"proposal": verdict.proposal, "remedy": verdict.remedy}


def _causes(client: Client, path: str, limit: int | None, *, below: bool) -> Iterator[FailureCause]:
    most = MOST_CAUSES if limit is None else limit
    refused = {refusal.path for refusal in client.refusals(path)}
    for campaign in campaigns_with(
        client,
        path,
        lambda node: node.failures or node.losses or node.path in refused,
        below=below,
    ):
        found = campaign.failure_causes(most, below=False)
        yield from found
        if limit is None and found and (more := found[0].causes - len(found)) > 0:
            text = f"{more:,} more in {campaign.path} with fewer attempts; --limit N shows more."
            click.echo(text, err=True)
