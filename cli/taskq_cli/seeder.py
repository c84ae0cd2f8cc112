"""Seeding from several sources in order, or from the best results of a running campaign."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Final, TypeAlias

import click

from taskq import Campaign
from taskq.ingest.key_conflicts import MAX_REPORTED_CLASHES, OnConflict, describe_clash, remedies
from taskq.ingest.seeding import SeedCount
from taskq.ingest.sources import BadLine, Damage, Source
from taskq.model.errors import Clash, InvalidTask, KeyConflict, TaskqError, Unavailable
from taskq.model.words import counted, duration
from taskq.results.feeder import Fed, Feeder
from taskq_agent.handlers.definition import inputs_of
from taskq_cli.display.output import write_record
from taskq_cli.display.progress import ProgressText, chunk_display, progress_display
from taskq_cli.display.text import one_line
from taskq_cli.early_exits import Interrupted, resumable, wait_out
from taskq_cli.invocation import warn

MAX_REPORTED: Final = 100
"""Most skipped bad lines that are shown; further ones are only counted."""

LONG_CHECK_BYTES: Final = 268_435_456
"""Least size of a file that is read through first, which takes seconds, and is announced."""

Show: TypeAlias = Callable[[SeedCount, "float | None"], None]


@contextmanager
def seed_display(path: str) -> Iterator[Show]:
    """Yield a function that shows the progress of seeding."""
    text = ProgressText()
    with progress_display() as show:

        def shown(count: SeedCount, share: float | None) -> None:
            parts = [f"seeding {path}", f"{count.added:,} added"]
            parts += [f"{count.known:,} known before"] if count.known else []
            parts += [f"{count.bad:,} bad"] if count.bad else []
            parts += [counted(count.conflicts, "conflict")] if count.conflicts else []
            show(share, text.of(count.read, share, *parts))

        yield shown


@dataclass(frozen=True, slots=True)
class SeedInput:
    """A source that is opened twice: once to check it, once to read it."""

    open: Callable[[], Source]

    def size(self) -> int | None:
        """Return its size in bytes or records, None if unknown; raise what opening it raises."""
        with self.open() as source:
            return source.total if source.total_bytes is None else source.total_bytes


class Seeder:
    """Seeds a campaign from sources.

    show: called with the count and the share of all sources that is read, None if their sizes are
    unknown. on_conflict: see `Campaign.seed`.
    """

    def __init__(
        self, campaign: Campaign, show: Show, *, skip_bad: bool, on_conflict: OnConflict
    ) -> None:
        self.count = SeedCount()
        self._campaign = campaign
        self._show = show
        self._skip_bad = skip_bad
        self._on_conflict = on_conflict
        self._reported = 0
        self._damaged: list[str] = []
        self._named = 0

    def run(self, inputs: Sequence[SeedInput]) -> SeedCount:
        """Seed from all inputs in order, after checking that each can be opened.

        Raise what opening and reading raise, `InvalidTask` at a bad line unless bad lines are
        skipped, `KeyConflict` as `Campaign.seed` does, and `Interrupted` at Ctrl-C. With bad lines
        skipped, a damaged file adds all that can be read and raises `InvalidTask` at the end, as
        the missing part is unknown. Tasks that were added stay; the text says how many,
        or how many at least where a chunk was on its way.
        """
        sizes = [file.size() for file in inputs]
        whole = None if None in sizes else sum(filter(None, sizes))
        behind = 0
        try:
            for file, size in zip(inputs, sizes, strict=True):
                with file.open() as source:
                    self._seed(source, behind, whole)
                behind += size or 0
        except KeyboardInterrupt:
            raise Interrupted(f"Interrupted{self._known_so_far()}.") from None
        except _Stopped as stop:
            raise InvalidTask(f"{stop}{self._so_far()}") from None
        except KeyConflict as error:
            raise self._conflict(error) from error
        except Unavailable as error:
            raise type(error)(f"{error}{self._known_so_far()}") from error
        except TaskqError as error:
            raise type(error)(f"{error}{self._so_far()}") from error
        if self._damaged:
            raise InvalidTask(
                f"{counted(self.count.added, 'task')} added; damaged files, read up to the "
                f"damage: {', '.join(self._damaged)}"
            )
        if self.count.bad and self.count.bad == self.count.read:
            raise InvalidTask(
                f"all {self.count.bad:,} records are bad: is it the right format? See --format"
            )
        return self.count

    def _seed(self, source: Source, behind: int, whole: int | None) -> None:
        before = self.count

        def show(count: SeedCount) -> None:
            self.count = _sum(before, count)
            position = count.read if source.total_bytes is None else source.bytes_read
            self._show(self.count, (behind + position) / whole if whole else None)

        def bad(line: BadLine) -> None:
            self._pass_over(source, line)

        def clash(found: Clash) -> None:
            self._name(source, found)
            if self._named == MAX_REPORTED_CLASHES:
                click.echo("Further conflicts are only counted.", err=True)

        _prepare(source)
        try:
            of_source = self._campaign.seed(
                source,
                on_conflict=self._on_conflict,
                on_clash=clash,
                on_bad=bad,
                on_progress=show,
            )
        except KeyConflict as error:
            for found in error.clashes:
                self._name(source, found)
            raise
        if not of_source.read:
            warn(f"{source.name} has no records")
        self.count = _sum(before, of_source)

    def _pass_over(self, source: Source, line: BadLine) -> None:
        """Report a bad line; raise `_Stopped` unless bad lines are skipped."""
        where = f"{source.name}:{line.number}: {line.reason}"
        text = one_line(f"{where}: {line.text:.80}" if line.text else where)
        if isinstance(line, Damage):
            if not self._skip_bad:
                raise _Stopped(f"{text}; --on-error skip adds what can be read")
            self._damaged.append(f"{one_line(source.name)} ({_uncertain(line)})")
            click.echo(text, err=True)
            return
        if not self._skip_bad:
            raise _Stopped(f"{text}; correct it, or skip bad lines with --on-error skip")
        self._reported += 1
        if self._reported <= MAX_REPORTED:
            click.echo(text, err=True)
        if self._reported == MAX_REPORTED:
            click.echo("Further bad lines are only counted.", err=True)

    def _name(self, source: Source, clash: Clash) -> None:
        self._named += 1
        if self._named <= MAX_REPORTED_CLASHES:
            click.echo(one_line(f"{source.name}:{clash.number}: {describe_clash(clash)}"), err=True)

    def _conflict(self, error: KeyConflict) -> KeyConflict:
        what = (
            "1 record has the key of another payload"
            if error.count == 1
            else f"{error.count:,} records have keys of other payloads"
        )
        choices = "--on-conflict skip" + ("" if error.too_long else " or keep-both")
        return KeyConflict(f"{what}; {remedies(error)} {choices}{self._so_far()}")

    def _so_far(self) -> str:
        if not self.count.added:
            return "; no task was added"
        return f"; tasks added before: {self.count.added:,}; the same command continues from there"

    def _known_so_far(self) -> str:
        # A chunk may be stored of which this process has not heard.
        if not self.count.added:
            return "; no task is known to be added; the same command continues"
        return (
            f"; tasks added before: at least {self.count.added:,}; "
            "the same command continues from there"
        )


def _prepare(source: Source) -> None:
    """Show the notes on a source that is about to be read, and announce a long check."""

    def note(number: int, text: str) -> None:
        click.echo(one_line(f"Note: {source.name}:{number}: {text}"), err=True)

    if source.notes is not None:
        source.notes.tell = note
    if source.checked_first and (source.total_bytes or 0) >= LONG_CHECK_BYTES:
        click.echo(f"Checking {source.name} before adding its tasks.", err=True)


def _uncertain(damage: Damage) -> str:
    if damage.uncertain is None:
        return "nothing before it is uncertain"
    first, last = damage.uncertain
    return f"lines {first:,} to {last:,} are uncertain"


class _Stopped(Exception):  # ends the loop of `Campaign.seed` from a callback
    pass


def _sum(before: SeedCount, more: SeedCount) -> SeedCount:
    own, further = asdict(before), asdict(more)
    return SeedCount(**{name: number + further[name] for name, number in own.items()})


def feed(output: str, feeder: Feeder, source: str, target: str) -> None:
    """Feed a campaign until the first stage has ended, and write the outcome."""
    began = time.monotonic()
    with resumable(), chunk_display(f"feeding {target} from {source}") as show:

        def shown(fed: Fed) -> None:
            total = fed.done + fed.unfinished
            paused = f"; {one_line(fed.paused[0])} is not open" if fed.paused else ""
            show(fed.done, total, f"{fed.chosen:,} of {fed.ranked:,} chosen so far{paused}")

        fed: Fed | None = None
        while fed is None:
            try:
                fed = feeder.run(shown)
            except Unavailable as error:  # noqa: PERF203 - it waits for seconds
                wait_out(error)
    record = {
        "path": target,
        **{name: getattr(fed, name) for name in ("done", "ranked", "left_out", "chosen")},
        **{name: getattr(fed, name) for name in ("cancelled", "begun", "some_begun")},
    }
    write_record(output, record, _feeding_summary(fed, source, target, time.monotonic() - began))


def _feeding_summary(fed: Fed, source: str, target: str, took_s: float) -> str:
    parts = [f"{source} is finished: {target} has its best {fed.chosen:,} of {fed.ranked:,}"]
    if fed.left_out:
        parts.append(f"{counted(fed.left_out, 'result')} left out, without the value or the group")
    if fed.cancelled:
        parts.append(f"{counted(fed.cancelled, 'task')} cancelled, no longer among them")
    if fed.begun:
        some = ", ".join(map(one_line, fed.some_begun))
        more = ", ..." if fed.begun > len(fed.some_begun) else ""
        parts.append(f"{fed.begun:,} no longer among them had begun: {some}{more}")
    return f"{'; '.join(parts)}. Took {duration(took_s)}."


def warn_unrunnable(campaign: Campaign) -> None:
    """Warn on standard error if the handler or an input is missing; name the remedy."""
    handler, path = campaign.spec().handler, campaign.path
    if handler is None:
        warn(
            f"{path} has no handler, so agents cannot run its tasks; add one with "
            f"`taskq campaign change {path} -- PROGRAM ARGUMENT...` or "
            "`--python MODULE:FUNCTION`"
        )
        return
    argv = [*handler.argv, *filter(None, [handler.container])]
    for name in sorted(inputs_of(argv) - campaign.inputs().keys()):
        warn(
            f"the program of {path} needs the input {name!r}, which is missing; "
            f"`taskq input add {path} FILE --name {name}` adds it"
        )
