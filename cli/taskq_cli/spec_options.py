"""Options that define a campaign, shared by `campaign create` and `campaign change`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeVar

import click

from taskq import CampaignSpec, Handler
from taskq.errors import UsageError
from taskq.ingest.sources.values import number_or_text
from taskq.spec.spec import LATE_RESULTS, ON_DISCONNECT

Command = TypeVar("Command", bound=Callable[..., Any])
Number = TypeVar("Number", int, float)

_RETRY: Final = ("max_attempts", "max_losses", "backoff_s", "backoff_max_s", "max_lost_nodes")


@dataclass(frozen=True, slots=True)
class SpecOptions:
    """Values of the options; None for each that was not given."""

    description: str | None
    python: str | None
    prepare: str | None
    process: bool
    program: tuple[str, ...]
    max_attempts: int | None
    max_losses: int | None
    backoff_s: float | None
    backoff_max_s: float | None
    never_retry: tuple[str, ...]
    max_lost_nodes: int | None
    time_limit: str | None
    max_running: str | None
    max_failure_share: str | None
    weight: float | None
    require: tuple[str, ...]
    on_disconnect: str | None
    late_results: str | None
    front: bool | None
    param: tuple[str, ...]

    def any_given(self) -> bool:
        """Return whether any option was given."""
        others = [getattr(self, one.name) for one in fields(self) if one.name != "process"]
        # 0 and --no-front count as given.
        return self.process or any(value is not None and value != () for value in others)

    def applied(self, spec: CampaignSpec) -> CampaignSpec:
        """Return the spec changed by the options; raise `InvalidCampaign` if it is not valid."""
        retry = {name: value for name in _RETRY if (value := getattr(self, name)) is not None}
        if self.never_retry:
            retry["never_retry"] = tuple(filter(None, self.never_retry))
        return replace(
            spec,
            description=spec.description if self.description is None else self.description,
            handler=self._handler() or spec.handler,
            retry=replace(spec.retry, **retry),
            time_limit_s=_limit(
                "--time-limit", self.time_limit, spec.time_limit_s, float, "a number of seconds"
            ),
            max_running=_limit(
                "--max-running", self.max_running, spec.max_running, int, "a whole number"
            ),
            max_failure_share=_limit(
                "--max-failure-share",
                self.max_failure_share,
                spec.max_failure_share,
                float,
                "a number",
            ),
            weight=spec.weight if self.weight is None else self.weight,
            requires=tuple(filter(None, self.require)) if self.require else spec.requires,
            on_disconnect=self.on_disconnect or spec.on_disconnect,
            late_results=self.late_results or spec.late_results,
            front=spec.front if self.front is None else self.front,
            params={**spec.params, **dict(map(_param, self.param))},
        )

    def _handler(self) -> Handler | None:
        if self.prepare is not None and self.python is None:
            raise UsageError("--prepare goes with --python, which is missing")
        if self.python is not None:
            if self.program or self.process:
                raise UsageError("--python and a program exclude each other: choose one")
            return Handler("python", target=self.python, prepare=self.prepare)
        if self.program:
            return Handler("process" if self.process else "command", argv=self.program)
        if self.process:
            raise UsageError("--process needs a program with its arguments after --")
        return None


def spec_options(command: Command) -> Command:
    """Add the options; the command gets them as `options`, a `SpecOptions`."""
    names = [option.name for option in fields(SpecOptions)]

    @functools.wraps(command)
    def collected(*args: Any, **kwargs: Any) -> Any:
        return command(
            *args, options=SpecOptions(**{name: kwargs.pop(name) for name in names}), **kwargs
        )

    decorated: Any = collected
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]  # the same callable, with other arguments


def _limit(
    option: str,
    value: str | None,
    present: Number | None,
    number: Callable[[str], Number],
    kind: str,
) -> Number | None:
    if value is None:
        return present
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
        type=float,
        metavar="SECONDS",
        help="Delay after a task's first failure; it doubles each time. [default: 10]",
    ),
    click.option(
        "--backoff-max",
        "backoff_max_s",
        type=float,
        metavar="SECONDS",
        help="Longest delay. [default: 3600]",
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
        "--time-limit", metavar="SECONDS|none", help="Limit of an attempt. [default: none]"
    ),
    click.option(
        "--max-running",
        metavar="N|none",
        help="Limit of the tasks that are working at a time. [default: none]",
    ),
    click.option(
        "--max-failure-share",
        metavar="SHARE|none",
        help="Share of failures among recent attempts above which the campaign pauses itself. "
        "[default: 0.9]",
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
