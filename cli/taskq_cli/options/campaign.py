"""Options that define a campaign, shared by `campaign create` and `campaign change`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import click

from taskq import CampaignSpec, Handler
from taskq.ingest.sources.values import number_or_text
from taskq.model.campaign_spec import LATE_RESULTS, ON_DISCONNECT
from taskq.model.errors import UsageError
from taskq_agent.arguments import time_s
from taskq_agent.text import size_in_bytes
from taskq_cli.options.shared import seconds, size, together

_RETRY: Final = (
    *("max_attempts", "max_losses", "backoff_s", "backoff_max_s", "max_lost_nodes"),
    "max_out_of_time",
)
_AS_GIVEN: Final = (
    *("description", "weight", "on_disconnect", "late_results", "front", "checkpoint_every_s"),
    "output_total_bytes",
)
_LIMITS: Final[dict[str, tuple[str, Callable[[str], float], str]]] = {
    "time_limit_s": ("--time-limit", time_s, "a time, as 90s, 30m or 2h"),
    "max_running": ("--max-running", int, "a whole number"),
    "max_running_per_site": ("--max-running-per-site", int, "a whole number"),
    "max_failure_share": ("--max-failure-share", float, "a number"),
    "hedge": ("--hedge", float, "a number"),
    "checkpoint_bytes": ("--checkpoint-bytes", size_in_bytes, "a size, as 20M"),
    "cores": ("--cores", int, "a whole number"),
    "gpus": ("--gpus", int, "a whole number"),
    "output_bytes": ("--output-bytes", size_in_bytes, "a size, as 20M"),
}


class SpecOptions:
    """The options that were given, by the names of their parameters."""

    def __init__(self, parsed: Mapping[str, Any]) -> None:
        # 0 and --no-front count as given.
        self._given = {
            name: value for name, value in parsed.items() if value is not None and value != ()
        }

    def any_given(self) -> bool:
        """Return whether any option was given."""
        return bool(self._given)

    def applied(self, spec: CampaignSpec) -> CampaignSpec:
        """Return the spec changed by the options; raise `InvalidCampaign` if it is not valid."""
        given = self._given
        changes: dict[str, Any] = {name: given[name] for name in _AS_GIVEN if name in given}
        changes |= {name: _limit(name, given[name]) for name in _LIMITS if name in given}
        retry: dict[str, Any] = {name: given[name] for name in _RETRY if name in given}
        if "never_retry" in given:
            retry["never_retry"] = tuple(filter(None, given["never_retry"]))
        if "memory" in given:
            changes["memory"] = None if given["memory"] == "none" else given["memory"].split(",")
        if "require" in given:
            changes["requires"] = tuple(filter(None, given["require"]))
        return replace(
            spec,
            handler=self._handler() or spec.handler,
            retry=replace(spec.retry, **retry),
            params={**spec.params, **dict(map(_param, given.get("param", ())))},
            **changes,
        )

    def _handler(self) -> Handler | None:
        python, program = self._given.get("python"), self._given.get("program", ())
        process, prepare = self._given.get("process"), self._given.get("prepare")
        if prepare is not None and python is None:
            raise UsageError("--prepare goes with --python, which is missing")
        if python is not None:
            if program or process:
                raise UsageError("--python and a program exclude each other: choose one")
            return Handler("python", target=python, prepare=prepare)
        if program:
            return Handler("process" if process else "command", argv=program)
        if process:
            raise UsageError("--process needs a program with its arguments after --")
        return None


def spec_options(command: Callable[..., Any]) -> Any:
    """Add the options; the command gets them as `options`, a `SpecOptions`."""

    @functools.wraps(command)
    def collected(*args: Any, **kwargs: Any) -> Any:
        parsed = {name: kwargs.pop(name) for name in _NAMES}
        return command(*args, options=SpecOptions(parsed), **kwargs)

    return together(*_OPTIONS)(collected)


def _limit(name: str, value: str) -> float | None:
    option, number, kind = _LIMITS[name]
    if value == "none":
        return None
    try:
        return number(value)
    except ValueError:
        raise UsageError(f"{option} {value!r} must be {kind}, or none") from None


def _param(text: str) -> tuple[str, int | float | str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"--param {text!r} must read NAME=VALUE, as exhaustiveness=8")
    return name, number_or_text(value)


_OPTIONS: Final = (
    click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="[-- PROGRAM...]"),
    click.option("--description", metavar="TEXT", help="Description of the campaign, for people."),
    click.option(
        "--python",
        metavar="MODULE:FUNCTION",
        help="Execute tasks by a Python callable, in a long-lived child process.",
    ),
    click.option(
        "--prepare",
        metavar="MODULE:FUNCTION",
        help="With --python: called once in each child, before its first task.",
    ),
    click.option(
        "--process",
        is_flag=True,
        default=None,
        help="The program is long-lived and speaks JSON lines; otherwise each task starts one.",
    ),
    click.option(
        "--max-attempts",
        type=int,
        metavar="N",
        help="Failures after which a task is given up. [default: 3]",
    ),
    click.option(
        "--max-losses",
        type=int,
        metavar="N",
        help="Lost agents after which a task is given up. [default: 5]",
    ),
    click.option(
        "--backoff",
        "backoff_s",
        type=seconds(),
        metavar="TIME",
        help="Delay after a task's first failure; it doubles each time. [default: 10s]",
    ),
    click.option(
        "--backoff-max",
        "backoff_max_s",
        type=seconds(),
        metavar="TIME",
        help="Longest delay. [default: 1h]",
    ),
    click.option(
        "--never-retry",
        multiple=True,
        metavar="CLASS",
        help="A class of error after which a task is given up at once. May be repeated; those "
        "given replace all before, '' leaves none.",
    ),
    click.option(
        "--max-lost-nodes",
        type=int,
        metavar="N",
        help="Nodes on which a task's agents were lost after which it is given up, as poison. "
        "[default: 3]",
    ),
    click.option(
        "--max-out-of-time",
        type=int,
        metavar="N",
        help="Attempts that ran out of their agent's time, without progress, after which a task is "
        "given up, as too-long. [default: 5]",
    ),
    click.option(
        "--time-limit",
        "time_limit_s",
        metavar="TIME|none",
        help="Limit of an attempt. [default: none]",
    ),
    click.option(
        "--max-running",
        metavar="N|none",
        help="Limit of the tasks that are working at a time. [default: none]",
    ),
    click.option(
        "--max-running-per-site",
        metavar="N|none",
        help="Limit of those that agents of one site work on at a time. [default: none]",
    ),
    click.option(
        "--max-failure-share",
        metavar="SHARE|none",
        help="Share of failures among recent attempts above which the campaign pauses itself. "
        "[default: 0.9]",
    ),
    click.option(
        "--checkpoint-bytes",
        metavar="SIZE|none",
        help="Keep the folder $TASKQ_CHECKPOINT of each task for its next attempt, if it is no "
        "larger than this. [default: none]",
    ),
    click.option(
        "--checkpoint-every",
        "checkpoint_every_s",
        type=seconds(),
        metavar="TIME",
        help="How often checkpoints are uploaded while attempts run. [default: 10m]",
    ),
    click.option(
        "--cores",
        metavar="N|none",
        help="Cores that a task needs: it goes to agents whose slots have so many. [default: none]",
    ),
    click.option(
        "--memory",
        metavar="SIZES|none",
        help="Memory that a task may occupy, as 4G; or several sizes, as 4G,8G,16G: the next one "
        "for a task that has run out of memory. [default: none]",
    ),
    click.option("--gpus", metavar="N|none", help="GPUs that a task needs. [default: none]"),
    click.option(
        "--output-bytes",
        metavar="SIZE|none",
        help="Keep what each task leaves in the folder $TASKQ_OUT with its result, if it is no "
        "larger than this. [default: none]",
    ),
    click.option(
        "--output-total-bytes",
        type=size,
        metavar="SIZE",
        help="Limit of the output files of the campaign. [default: 10G]",
    ),
    click.option(
        "--weight",
        type=float,
        metavar="W",
        help="Share of the running tasks, in relation to other campaigns'. [default: 1]",
    ),
    click.option(
        "--require",
        multiple=True,
        metavar="TAG",
        help="Go only to agents that offer this: NAME, NAME=VALUE or NAME>=NUMBER, as 'mem>=16'. "
        "May be repeated; those given replace all before, '' leaves none.",
    ),
    click.option(
        "--on-disconnect",
        type=click.Choice(ON_DISCONNECT),
        help="What an agent that cannot reach the queue does with running tasks once their leases "
        "may have expired. [default: continue]",
    ),
    click.option(
        "--late-results",
        type=click.Choice(LATE_RESULTS),
        help="Whether to salvage a success of an attempt that was given up as lost: it then counts "
        "unless another result was accepted. [default: reject]",
    ),
    click.option(
        "--hedge",
        metavar="SHARE|none",
        help="Share of the tasks that idle agents may attempt a second time on another host at the "
        "campaign's end, if the first attempt takes far longer than others do; the first success "
        "counts. It needs --late-results salvage. [default: none]",
    ),
    click.option(
        "--front/--no-front",
        default=None,
        help="Whether tasks may be leased ahead into Redis. [default: --front]",
    ),
    click.option(
        "--param",
        multiple=True,
        metavar="NAME=VALUE",
        help="A parameter that all tasks share: a number or text. May be repeated.",
    ),
)
_NAMES: Final = (
    *("program", "description", "python", "prepare", "process", *_RETRY, "never_retry", *_LIMITS),
    *(
        "checkpoint_every_s",
        "memory",
        "output_total_bytes",
        "weight",
        "require",
        "on_disconnect",
        "late_results",
        "front",
        "param",
    ),
)
