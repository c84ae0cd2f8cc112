"""Causes that tasks show: programs, inputs, nodes, sites."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Sequence
from typing import Final

from tests.chaos.clocks import Clock, shim
from tests.drill.drawn.case import Problem, cause
from tests.drill.drawn.farm import TASKS, Farm
from tests.drill.drawn.forms import ALWAYS, CHANCE, PAIR, SINCE, SIZE, Form
from tests.drill.drawn.symptoms import (
    ASKED,
    AWAY,
    BUS,
    COMMA,
    CRAWL,
    CUT,
    DEMO,
    EMPTY,
    FILLS,
    FORKS,
    FULL,
    HANG,
    LEAK,
    LIBRARY,
    LICENCES,
    MOUNT,
    NAN,
    OOM,
    SAME,
    SEGFAULT,
    STALE,
    TOO_MUCH_CPU,
    UNITS,
    Symptom,
    exits,
)
from tests.drill.stage import Host

#: Inputs that are seeded in time come behind these: few, so that their turn comes soon.
_GOOD: Final = 80


def _shell(form: Form, symptom: Symptom, test: str = "") -> str:
    return f"if {test or form.test}; then {symptom.shell}; fi"


@cause("program")
def program(farm: Farm, form: Form, chance: random.Random) -> Problem:
    """Let the program of a campaign go wrong everywhere."""
    path = farm.take_campaign()
    choice = [exits(chance, farm.stage.word()), SEGFAULT, OOM, NAN, EMPTY, CUT, COMMA]
    if form.name == SINCE:
        choice += [CRAWL, UNITS]  # else nobody can know what is usual
    elif form.name == SIZE:
        choice.append(HANG)
    elif form.name == CHANCE:
        choice.append(LICENCES)
    symptom = chance.choice(choice)
    test = "case $smiles in *Se*) true ;; *) false ;; esac" if form.name == PAIR else ""
    return _of_tasks(
        farm,
        form,
        symptom,
        f"program of {path}: {symptom.name}",
        [*farm.stage.hosts.values()],
        path,
        (path,),
        test,
    )


@cause("input")
def inputs(farm: Farm, form: Form, chance: random.Random) -> Problem:
    """Seed damaged inputs, which the program of a campaign does not stand."""
    path = farm.take_campaign()
    symptom = chance.choice([exits(chance, farm.stage.word()), SEGFAULT, NAN, EMPTY])
    hosts = [*farm.stage.hosts.values()]
    late = form.name == SINCE

    def seed() -> None:
        if late:
            farm.seed(path, form.hits, range(TASKS, 2 * TASKS))
        else:
            farm.seed(path, form.hits)

    def install() -> None:
        for host in hosts:
            (host.home / "symptom").write_text(symptom.shell + "\n")
        if late:
            farm.seed(path, numbers=range(_GOOD))
        else:
            seed()

    def mend() -> None:
        for host in hosts:
            (host.home / "symptom").unlink(missing_ok=True)

    farm.seeded.add(path)
    return Problem(
        f"inputs of {path} are damaged: {symptom.name}",
        (path,),
        symptom.words,
        symptom.shows,
        {path},
        path,
        before=install,
        strike=seed if late else lambda: None,
        mend=mend,
    )


@cause("node")
def node(farm: Farm, form: Form, chance: random.Random) -> Problem:
    """Let a host go wrong."""
    host = farm.take_host()
    choice = [exits(chance, farm.stage.word()), SEGFAULT, OOM, NAN, EMPTY, SAME, FULL, LIBRARY]
    choice += [COMMA, DEMO, FORKS, ASKED, UNITS]
    choice += [FILLS] if form.name in {ALWAYS, SINCE} else []
    choice += [CRAWL, LEAK] if form.name not in {CHANCE, SIZE} else []
    choice += [HANG] if form.name != CHANCE else []
    others = {SINCE: [_wrong_clock, _freezes], ALWAYS: [_never_begins]}.get(form.name, [])
    symptom = chance.choice([*choice, *others])
    if not isinstance(symptom, Symptom):
        return symptom(farm, host)
    path = farm.take_campaign() if form.name == PAIR else ""
    what = f"host {host.name}{f' x {path}' if path else ''}: {symptom.name}"
    return _of_tasks(farm, form, symptom, what, [host], path, (host.name,))


@cause("site")
def site(farm: Farm, form: Form, chance: random.Random) -> Problem:
    """Let all hosts of a site go wrong."""
    name, hosts = farm.take_site()
    choice = [exits(chance, farm.stage.word()), SEGFAULT, NAN, FULL, LIBRARY, STALE]
    choice += [BUS, TOO_MUCH_CPU, CUT, DEMO, MOUNT, UNITS]
    choice += [CRAWL] if form.name not in {CHANCE, SIZE} else []
    symptom = chance.choice(choice)
    path = farm.take_campaign() if form.name == PAIR else ""
    what = f"site {name}{f' x {path}' if path else ''}: {symptom.name}"
    return _of_tasks(farm, form, symptom, what, hosts, path, (name,))


def _of_tasks(
    farm: Farm,
    form: Form,
    symptom: Symptom,
    what: str,
    hosts: Sequence[Host],
    path: str,
    places: tuple[str, ...],
    test: str = "",
) -> Problem:
    undo: list[Callable[[], object]] = []

    def plant() -> None:
        undo.append(farm.trouble(hosts, _shell(form, symptom, test), path or "all"))

    def mend() -> None:
        for way_back in undo:
            way_back()

    guilty = {*places, *(host.name for host in hosts if places != (path,))}
    return Problem(
        what,
        places if places == (path,) else (*places, *sorted(guilty - {path})),
        symptom.words,
        symptom.shows,
        guilty | ({path} if path else set()),
        path or None,
        before=(lambda: None) if form.is_late else plant,
        strike=plant if form.is_late else lambda: None,
        mend=mend,
    )


def _wrong_clock(farm: Farm, host: Host) -> Problem:
    made = shim(farm.stage.folder)
    assert made is not None, "a C compiler is needed: apt-get install gcc"
    clock = Clock(made, host.home / "clock")

    def strike() -> None:
        clock.set(-3_600 * 24 * 400)
        host.restart(**clock.environment)

    return Problem(
        f"host {host.name}: its clock is wrong",
        (host.name,),
        "clock",
        AWAY,
        {host.name},
        strike=strike,
        mend=lambda: clock.set(0.0),
    )


def _freezes(_: Farm, host: Host) -> Problem:
    """Let the agent of a host do nothing, as where its machine swaps without an end."""

    def mend() -> None:
        assert host.process is not None
        host.process.send_signal(signal.SIGCONT)

    words = "silent|lost|no heartbeat"
    return Problem(
        f"host {host.name}: its agent is frozen",
        (host.name,),
        words,
        AWAY,
        {host.name},
        strike=host.freeze,
        mend=mend,
    )


def _never_begins(_: Farm, host: Host) -> Problem:
    """Let the agent of a host end at its start, again and again: its scratch is read-only."""
    return Problem(
        f"host {host.name}: its agent never begins",
        (host.name,),
        "scratch|do not get in",
        AWAY,
        {host.name},
        before=lambda: host.start("--scratch", "/proc", again=True),
        mend=host.restart,
    )
