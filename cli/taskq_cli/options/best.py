"""Options that choose the best results: of `results`, `export`, `fetch` and `seed --from`."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, Final

import click

from taskq import Campaign, Client, Seed
from taskq.ingest.sources import Record, Source
from taskq.model.errors import UsageError
from taskq.model.views import Result
from taskq.model.words import command, counted
from taskq.results.feeder import Feeder
from taskq.results.ranking import Best, dotted
from taskq.results.selection import Selection, select
from taskq_cli.display.output import as_record
from taskq_cli.display.text import one_line
from taskq_cli.options.shared import below_option, campaign_path, complete_path, together
from taskq_cli.options.values import Decorator
from taskq_cli.seeder import SeedInput

_MANY: Final = re.compile(r"([0-9]{1,9})|([0-9]{1,3}(?:\.[0-9]{1,9})?)%")
_EXAMPLE: Final = "--best 100 --by result.score --lowest"
_TOGETHER: Final = f"--best N and --by FIELD go together, such as {_EXAMPLE}"
#: Those that need `--from` come first.
_NAMES: Final = ("best", "by", "lowest", "group", "recipe", "so_far", "live", "below")
_NEEDING: Final = 5

group_option: Final = click.option(
    "--group",
    metavar="FIELD",
    help="Take only the best of the results with the same value here, such as payload.smiles.",
)


def _many(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """Check a number or a share."""
    if text is not None and not _MANY.fullmatch(text):
        raise click.BadParameter(f"{text!r} must be a number or a share, such as 1000 or 0.5%.")
    return text


def ranking_options(note: str = "", *, shares: bool = True) -> Decorator:
    """Add `--best`, `--by` and `--lowest/--highest`. shares: whether `--best` takes P%, too."""
    how_many: dict[str, Any] = {"type": click.IntRange(min=1), "metavar": "N"}
    if shares:
        how_many = {"callback": _many, "metavar": "N|P%"}
    return together(
        click.option("--best", **how_many, help=f"Take only so many of the best results.{note}"),
        click.option(
            "--by",
            metavar="FIELD",
            help="Rank by this number, such as result.score. [default: the campaign's "
            f"`best`]{note}",
        ),
        click.option(
            "--lowest/--highest",
            default=None,
            help=f"Which numbers are best. [default: the campaign's `best`]{note}",
        ),
        click.option(
            "--recipe",
            type=click.IntRange(min=1),
            metavar="N",
            help=f"Rank only results of this recipe; see `taskq campaign changes`.{note}",
        ),
    )


def check_ranking(best: object, by: str | None, lowest: bool | None, recipe: int | None) -> None:
    """Raise `UsageError` for a ranking without a number of results."""
    if best is None and (by is not None or lowest is not None):
        raise UsageError(_TOGETHER)
    if best is None and recipe is not None:
        raise UsageError(f"--recipe goes with --best; `--where 'recipe = {recipe}'` does without")


def ranked_by(campaign: Campaign, by: str | None, lowest: bool | None) -> tuple[str, bool]:
    """Return the field to rank by, and whether its lowest number is best.

    The campaign's setting `best` says what the options do not; raise `UsageError` without one.
    """
    if by is not None and lowest is not None:
        return by, lowest
    declared = campaign.spec().ranking
    if declared is not None and by in {None, declared[0]}:
        return declared[0], declared[1] if lowest is None else lowest
    if by is None:
        raise UsageError(
            f"{_TOGETHER}; or say once what is best: "
            f"`taskq campaign change {shlex.quote(campaign.path)} --best-result 'lowest FIELD'`"
        )
    raise UsageError(f"which {one_line(by)} is best? Give --lowest or --highest")


class MixtureWarning:
    """Warns once, when the best results of a campaign come from several recipes."""

    def __init__(self) -> None:
        self._first: dict[str, int | None] = {}
        self._given = False

    def note(self, result: Result) -> None:
        """Warn if this is the first one of another recipe."""
        path, recipe = result.campaign, result.recipe
        if self._first.setdefault(path, recipe) != recipe and not self._given:
            self._given = True
            both = " and ".join(
                "an unknown one" if number is None else str(number)
                for number in (self._first[path], recipe)
            )
            click.echo(
                f"Results of several recipes of {one_line(path)}, such as {both}, are ranked "
                f"together; --recipe N ranks one: {command('campaign', 'changes', names=[path])}",
                err=True,
            )


def best_of(best: str, by: str, *, lowest: bool, group: str | None, recipe: int | None) -> Best:
    """Return what `--best N|P%` and its further options mean."""
    n = None if best.endswith("%") else int(best)
    percent = Fraction(best[:-1]) if n is None else None
    return Best(by, n=n, percent=percent, lowest=lowest, group=group, recipe=recipe)


class BestOptions:
    """The options of `--from`. path: of the campaign whose best results are taken."""

    def __init__(self, path: str, given: dict[str, Any]) -> None:
        if given["best"] is None:
            raise UsageError(f"--from needs --best, such as {_EXAMPLE}")
        self.path = path
        self.live: bool = given["live"]
        self._given = given

    def input(self, client: Client, target: str) -> SeedInput:
        """Return the chosen results as a source of tasks for the target."""
        campaign = client.campaign(self.path)
        wanted = self._wanted(campaign)
        if self.path == target:
            raise UsageError(f"{target} cannot be seeded from itself")
        below, so_far = self._given["below"], self._given["so_far"]
        selection = select(client.queries, campaign, wanted, below=below, but=target, so_far=so_far)
        return SeedInput(functools.partial(_Chosen, self.path, selection, wanted))

    def feeder(self, client: Client, target: Campaign) -> Feeder:
        """Return what feeds the target while the campaign runs."""
        source = client.campaign(self.path)
        wanted = self._wanted(source)
        if self._given["so_far"]:
            raise UsageError("--live continues to the end, and --so-far ends now: choose one")
        return Feeder(client.queries, source, target, wanted, below=self._given["below"])

    def _wanted(self, campaign: Campaign) -> Best:
        given = self._given
        by, lowest = ranked_by(campaign, given["by"], given["lowest"])
        return best_of(
            given["best"], by, lowest=lowest, group=given["group"], recipe=given["recipe"]
        )


class _Chosen(Source):
    """The chosen results, each with the payload and the key of its task."""

    def __init__(self, path: str, selection: Selection, wanted: Best) -> None:
        self.name = f"the best of {path}"
        self._selection = selection
        self._wanted = wanted

    def __iter__(self) -> Iterator[Record]:
        number, first, last = 0, None, None
        mixture = MixtureWarning()
        for result in self._selection:
            mixture.note(result)
            last = dotted(as_record(result), self._wanted.by)
            first = first if number else last
            number += 1
            yield Seed(result.payload, result.key)
        chosen, wanted = self._selection, self._wanted
        things = counted(chosen.ranked, "result" if wanted.group is None else "group")
        values = f", from {first} to {last}" if number else ""
        end = "lowest" if wanted.lowest else "highest"
        click.echo(f"The {end} by {wanted.by}: {number:,} of {things}{values}.", err=True)
        if chosen.left_out:
            left_out = counted(chosen.left_out, "result")
            group = "" if wanted.group is None else f", or with nothing in {wanted.group}"
            click.echo(f"Left out: {left_out} without a number in {wanted.by}{group}.", err=True)


def best_options(command: Callable[..., Any]) -> Any:
    """Add the options; the command gets them as `best`, None without `--from`."""

    @functools.wraps(command)
    def collected(*args: Any, **kwargs: Any) -> Any:
        path: str | None = kwargs.pop("from_path")
        given = {name: kwargs.pop(name) for name in _NAMES}
        flags = given["so_far"] or given["live"]
        if path is None and (flags or any(given[name] is not None for name in _NAMES[:_NEEDING])):
            raise UsageError(
                "--best, --by, --lowest, --group, --recipe, --so-far and --live go with --from"
            )
        best = None if path is None else BestOptions(path, given)
        return command(*args, best=best, **kwargs)

    return _options(collected)


_options: Final = together(
    click.option(
        "--from",
        "from_path",
        type=campaign_path,
        shell_complete=complete_path,
        metavar="PATH",
        help="Add the best results of this campaign, which must be finished: each with payload and "
        "key of its task.",
    ),
    ranking_options(" [--from]"),
    group_option,
    click.option(
        "--so-far",
        is_flag=True,
        help="Choose now, although tasks are unfinished and may give better results. [--from]",
    ),
    click.option(
        "--live",
        is_flag=True,
        help="Continue until no task there is unfinished: add the best so far, and at the end "
        "cancel tasks that are not among the best and have not begun. [--from]",
    ),
    below_option,
)
