"""`taskq campaign`: create, change, pause, resume, cancel and remove campaigns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

import click

from taskq import Campaign, CampaignSpec, Client, Handler
from taskq.diagnosis.tables.campaigns import CHANGES
from taskq.ingest.campaign_file import CampaignFile, read_campaign_file
from taskq.model.columns import Column
from taskq.model.errors import Conflict, UnknownCampaign, UsageError
from taskq.model.recipes import Difference, differences
from taskq.model.requirements import resources_text
from taskq.model.settings import settings
from taskq.model.views import Status
from taskq.model.words import counted, duration
from taskq_cli.commands.acts import acts
from taskq_cli.commands.archive import archive, restore
from taskq_cli.commands.results import index
from taskq_cli.commands.tasks import cancel
from taskq_cli.display.output import facts, write_record, write_records
from taskq_cli.display.overview import resume_commands
from taskq_cli.display.progress import chunk_display
from taskq_cli.early_exits import confirm, confirm_mixing, resumable
from taskq_cli.invocation import Invocation
from taskq_cli.options.campaign import SpecOptions, spec_options
from taskq_cli.options.shared import (
    campaign_file_option,
    dry_run_option,
    limit_option,
    path_argument,
    reading_options,
    shared_options,
    yes_option,
)
from taskq_cli.seeder import warn_unrunnable

_RESOURCES: Final = ("cores", "memory", "gpus", "gpu_memory", "named_resources")
#: Titles of settings that share a line, and one title that is clearer than the name.
_TITLES: Final = {
    **dict.fromkeys(("max_attempts", "max_losses", "backoff_s", "backoff_max_s"), "retry"),
    **dict.fromkeys(("max_lost_hosts", "max_out_of_time"), "retry"),
    **dict.fromkeys(("checkpoint_bytes", "checkpoint_every_s"), "checkpoints"),
    **dict.fromkeys(("output_bytes", "output_total_bytes"), "output files"),
    **dict.fromkeys(_RESOURCES, "resources"),
    "never_retry": "never retried",
}
#: Members of a handler that its line begins with, and digests, which say nothing to people.
_WHAT_RUNS: Final = frozenset(
    "kind target prepare argv name archive python seal fingerprint parts".split()  # noqa: SIM905
)


@click.group()
def campaign() -> None:
    """Create, change, pause, cancel, index, archive and remove campaigns.

    Example:
      taskq campaign show /demo
    """


campaign.add_command(acts)
campaign.add_command(archive)
campaign.add_command(cancel)
campaign.add_command(index)
campaign.add_command(restore)


@campaign.command()
@path_argument(required=False)
@spec_options
@campaign_file_option
@click.option("--exist-ok", is_flag=True, help="If it exists with other settings, change it.")
@shared_options
def create(
    invocation: Invocation,
    *,
    path: str | None,
    options: SpecOptions,
    file: Path | None,
    exist_ok: bool,
) -> None:
    """Create a campaign at PATH, and missing campaigns above it.

    A campaign that exists with the same settings stays as it is. Its tasks are executed by a
    program with arguments, after --, or by a Python callable. In an argument, {name} is a field of
    the task's payload and {params.name} a parameter of the campaign; {task.key}, {task.attempt} and
    {scratch} (its folder) belong to the task.

    Example:
      taskq campaign create /demo/sleep --time-limit 60 -- sleep '{seconds}'
      taskq campaign create /demo/dock --python dock:dock --param exhaustiveness=8
      taskq campaign create --campaign-file campaign.toml
    """
    content = None if file is None else read_campaign_file(file)
    spec = options.applied(_base(path, content))
    with invocation.client() as client:
        created, outcome = _created(client, spec, exist_ok=exist_ok)
        warn_unrunnable(created)
    lines = [f"The campaign {spec.path} {outcome}."]
    if content is not None and content.seed is not None:
        lines.append(f"To add its tasks: taskq seed --campaign-file {file}")
    record = {"campaign_id": created.campaign_id} | spec.to_json()
    write_record(invocation.output, record, "\n".join(lines))


@campaign.command()
@path_argument()
@spec_options
@campaign_file_option
@yes_option
@shared_options
def change(
    invocation: Invocation, *, path: str, options: SpecOptions, file: Path | None, yes: bool
) -> None:
    """Change settings of the campaign at PATH; the others stay.

    The change applies to tasks that are claimed afterwards; a shorter backoff also to those that
    are delayed already. If it gives the campaign another recipe (handler, parameters, inputs) and
    there are results, it asks first; `taskq campaign changes` lists these changes.

    Example:
      taskq campaign change /demo/sleep --time-limit 120 --max-attempts 5
    """
    if file is None and not options.any_given():
        raise UsageError("nothing to change: give at least one option; see the help")
    content = None if file is None else read_campaign_file(file)
    with invocation.client() as client:
        target = client.campaign(path)
        was = target.spec()
        spec = options.applied(was if content is None else _base(path, content))
        if (spec.handler, spec.params) != (was.handler, was.params):
            confirm_mixing(target, yes=yes)
        target.change(spec)
    write_record(invocation.output, spec.to_json(), f"The campaign {path} is changed.")


@campaign.command()
@path_argument()
@limit_option
@reading_options
def changes(invocation: Invocation, *, path: str, limit: int | None) -> None:
    """List the recipes of the campaign at PATH: how its results were computed.

    A recipe is its handler, parameters and inputs; each change of these is a line. Content that it
    has had before gets its old number. Changes before the first task do not count.

    Example:
      taskq campaign changes /demo/dock
    """
    with invocation.reader() as client:
        found = client.campaign(path).changes()
    write_records(invocation.output, found, CHANGES, limit=limit)


@click.command()
@path_argument()
@click.argument("other", metavar="OTHER")
@limit_option
@reading_options
def diff(invocation: Invocation, *, path: str, other: str, limit: int | None) -> None:
    """Compare how two campaigns compute: handler, parameters and inputs.

    Example:
      taskq diff /demo/first /demo/second
    """
    with invocation.reader() as client:
        found = differences(client.campaign(path).recipe(), client.campaign(other).recipe())
    columns: list[Column[Difference]] = [
        Column("what"),
        Column(path, lambda it: _as_json(it.first)),
        Column(other, lambda it: _as_json(it.second)),
    ]
    write_records(invocation.output, found, columns, limit=limit)


def _as_json(value: object) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


@campaign.command()
@path_argument()
@click.option(
    "--recipe",
    "number",
    type=click.IntRange(min=1),
    metavar="N",
    help="Show this recipe instead: handler, parameters and inputs.",
)
@shared_options
def show(invocation: Invocation, path: str, number: int | None) -> None:
    """Show the settings of the campaign at PATH.

    Example:
      taskq campaign show /demo/sleep --output json
    """
    if number is not None:
        with invocation.client() as client:
            found = asdict(client.campaign(path).recipe(number))
        write_record(invocation.output, found, facts({"path": path, **found}))
        return
    with invocation.client() as client:
        target = client.campaign(path)
        spec, status, learnt = target.spec(), target.status(), target.learnt_memory()
        closed_by, owner = target.closed_by(), client.owners.of(path)
        retention = target.retention()
    record = spec.to_json() | {
        "campaign_id": target.campaign_id,
        "owner": owner,
        "state": status.state,
        "closed_by": closed_by,
        "paused_why": status.paused_why,
        "learnt_memory": list(learnt),
        "retention": None if retention is None else asdict(retention),
    }
    text = _as_text(spec, status, owner, closed_by, learnt)
    if retention is not None:
        text += f"\nIt is removed {retention.words(path)}."
    write_record(invocation.output, record, text)


@campaign.command()
@path_argument()
@shared_options
def pause(invocation: Invocation, path: str) -> None:
    """Hand out no more tasks of PATH and all below; running ones continue.

    Example:
      taskq campaign pause /demo
    """
    with invocation.client() as client:
        changed = client.campaign(path).pause()
    text = f"The campaign {path} {'is paused' if changed else 'was paused already'}."
    write_record(invocation.output, {"path": path, "changed": changed}, text)


@campaign.command()
@path_argument()
@shared_options
def resume(invocation: Invocation, path: str) -> None:
    """Hand out tasks of PATH again, after `pause` or `cancel`.

    Example:
      taskq campaign resume /demo
    """
    with invocation.client() as client:
        target = client.campaign(path)
        changed, state = target.resume(), target.status().state
        closed_by = target.closed_by() if state != "open" else []
    text = f"The campaign {path} {'is open again' if changed else 'was open already'}."
    if closed_by:
        commands = resume_commands(closed_by)
        text = f"The campaign {path} is open itself, but {state} from above: {commands}."
    record = {"path": path, "changed": changed, "state": state, "closed_by": closed_by}
    write_record(invocation.output, record, text)


@campaign.command()
@path_argument()
@dry_run_option
@yes_option
@shared_options
def rm(invocation: Invocation, *, path: str, dry_run: bool, yes: bool) -> None:
    """Delete PATH and all below: campaigns, tasks and results, for good.

    Example:
      taskq campaign rm /demo --yes
    """
    if path == "/":
        raise UsageError("the root cannot be removed; name a campaign below it")
    invocation.make_room()
    with invocation.client() as client:
        nodes = client.campaign(path).tree()
        total = sum(node.total for node in nodes)
        below = f", {counted(len(nodes) - 1, 'campaign')} below" if len(nodes) > 1 else ""
        what = f"{path}{below} and {counted(total, 'task')} with all results"
        if dry_run:
            record = {"path": path, "tasks": total, "dry_run": True}
            would = f"{what} would be deleted; nothing was changed."
            write_record(invocation.output, record, would)
            return
        confirm(f"Delete {what}?", yes=yes)
        with resumable(), chunk_display(f"deleting {path}") as show:
            removed = client.campaign(path).remove(lambda gone, of: show(gone, of, "deleted"))
    text = f"The campaign {path} and {counted(removed, 'task')} are deleted."
    write_record(invocation.output, {"path": path, "tasks": removed}, text)


def _base(path: str | None, content: CampaignFile | None) -> CampaignSpec:
    """Return the spec that the options change: the spec of the file, or an empty one."""
    if content is not None:
        return content.spec if path is None else replace(content.spec, path=path)
    if path is None:
        raise UsageError(
            "name the PATH of the campaign, such as /demo, or give it by --campaign-file"
        )
    return CampaignSpec(path)


def _created(client: Client, spec: CampaignSpec, *, exist_ok: bool) -> tuple[Campaign, str]:
    """Create a campaign, or find it; return it, and what happened, in words."""
    try:
        return client.create_campaign(spec, exist_ok=False), "is created"
    except Conflict as error:
        try:
            was = client.campaign(spec.path).spec()
        except UnknownCampaign:  # one above it is archived
            raise error from None
    try:
        found = client.create_campaign(spec, exist_ok=exist_ok or None)
    except Conflict as error:
        raise Conflict(f"{error}; with --exist-ok it is changed instead") from error
    is_same = found.spec() == was
    return found, "existed already, with these settings" if is_same else "existed and is changed"


def _settings(spec: CampaignSpec, learnt: Sequence[int]) -> dict[str, str]:
    """Return the texts of settings by their titles; some settings share a line."""
    retry, kept, out = spec.retry, spec.checkpoint_bytes, spec.output_bytes
    shared = {
        "retry": f"{counted(retry.max_attempts, 'attempt')}, {counted(retry.max_losses, 'loss')}, "
        f"losses on {counted(retry.max_lost_hosts, 'host')}, "
        f"out of time {counted(retry.max_out_of_time, 'time')}; "
        f"backoff {duration(retry.backoff_s)} to {duration(retry.backoff_max_s)}",
        "checkpoints": "none"
        if kept is None
        else f"{kept:,} bytes, every {duration(spec.checkpoint_every_s)}",
        "output files": "none"
        if out is None
        else f"{out:,} bytes of a task, {spec.output_total_bytes:,} in all",
        "resources": resources_text(
            spec.cores,
            spec.memory,
            spec.gpus,
            learnt,
            gpu_memory=spec.gpu_memory,
            named=spec.named_resources,
        )
        or "none",
    }
    lines: dict[str, str] = {}
    for part in (retry, spec):
        for name, declared in settings(type(part)).items():
            title = _TITLES.get(name) or name.removesuffix("_s").replace("_", " ")
            lines[title] = shared[title] if title in shared else declared.shown(getattr(part, name))
    return lines


def _executed(handler: Handler | None) -> str:
    """Return what a handler runs, and how, as one line."""
    if handler is None:
        return "(none)"
    what = handler.target or (
        f"{handler.name}, by value, of Python {handler.python}"
        if handler.archive
        else json.dumps(handler.argv)
    )
    parts = [f"{handler.kind}: {what}"]
    parts += [f"prepared by {handler.prepare}"] if handler.prepare else []
    parts += [
        f"{name.removesuffix('_s').replace('_', ' ')} {member.shown(value)}"
        for name, member in settings(Handler).items()
        if name not in _WHAT_RUNS and (value := getattr(handler, name)) not in (None, ())
    ]
    return ", ".join(parts)


def _as_text(
    spec: CampaignSpec,
    status: Status,
    owner: str | None,
    closed_by: list[str],
    learnt: Sequence[int],
) -> str:
    return facts(
        {
            "path": spec.path,
            "owner": owner,
            "state": status.state,
            "closed by": closed_by,
            "paused itself": status.paused_why,
            "description": spec.description,
            "handler": _executed(spec.handler),
            **_settings(spec, learnt),
            "params": dict(spec.params) or "",
        }
    )
