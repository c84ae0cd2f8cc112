"""Causes in what ends agents or keeps them from tasks: batch systems, and people."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from tests.drill.drawn.case import Problem, cause
from tests.drill.drawn.farm import Farm
from tests.drill.drawn.forms import ALWAYS, CHANCE, PAIR, SIZE, Form
from tests.drill.drawn.symptoms import AWAY, FAILS, STUCK
from tests.drill.stage import Host

_LIMIT_S: Final = 6.0
#: One agent that is silent, and may be lost, is no news of jobs that end again and again.
_ENDS: Final = r"(?<!may be )\blost\b|left|ended|killed|batch|signal|\bdie"


@cause("batch system")
def batch_system(farm: Farm, form: Form, chance: random.Random) -> Problem:
    """Let the batch system of a site end its jobs, and start others in their place."""
    name, hosts = farm.take_site()
    path = farm.take_campaign() if form.name == PAIR else ""
    kill = 'sleep 0.5; kill -9 "$(cat "$DRILL_HOME/pid")"; sleep 2'
    ends: list[Callable[[], None]] = []

    def begin() -> None:
        for host in hosts:
            host.start(again=True)
        if not form.is_late:
            strike()

    def strike() -> None:
        if form.name in {SIZE, PAIR}:  # by memory, say
            ends.append(farm.trouble(hosts, f"if {form.test}; then {kill}; fi", path or "all"))
        else:
            ends.append(farm.every(_LIMIT_S, lambda: end_some(1.0 if form.name != CHANCE else 0.5)))

    def end_some(part: float) -> None:
        for host in hosts:
            if chance.random() < part:
                end_job(host)

    return Problem(
        f"batch system of site {name} ends jobs {form.name}{f' x {path}' if path else ''}",
        (name, *(host.name for host in hosts), *([path] if path else [])),
        _ENDS,
        FAILS,
        {name, *(host.name for host in hosts)} | ({path} if path else set()),
        before=begin,
        strike=strike if form.is_late else lambda: None,
        mend=lambda: [end() for end in ends],
    )


def end_job(host: Host) -> None:
    """Kill the agent of a host, without a word."""
    with suppress(OSError, ValueError):
        os.kill(int((host.home / "pid").read_text()), signal.SIGKILL)


@cause("people")
def people(farm: Farm, form: Form, chance: random.Random) -> Problem:
    """Let somebody give an order that they should not."""
    path = farm.take_campaign(2)
    problem = Problem("", (path,), "", STUCK, {path}, path)
    if form.name == CHANCE:
        return _seeded_badly(farm, problem)
    if form.name == SIZE:
        line = f"taskq campaign change {path} --time-limit 0.5s"
        problem.words, problem.shows = "time-limit|time limit", FAILS
    elif form.name == PAIR:
        name, hosts = farm.take_site()
        why = f"--why 'moving racks' --campaign {path}"
        line, problem.words, problem.shows = chance.choice(
            (
                (f"taskq site ban {name} {why}", "ban", STUCK),
                (f"taskq host ban {hosts[0].name} {why}", "ban", STUCK),
                (f"taskq agent drain --site {name}", "drain", AWAY),
                (f"taskq token revoke {name}", "revoked", AWAY),
            )
        )
        if problem.shows == AWAY:
            problem.mend = partial(_start_anew, farm, name, hosts)
        problem.places = (name, *(host.name for host in hosts))
        problem.guilty |= {name, *(host.name for host in hosts)}
        problem.campaign = None
    else:
        line, problem.words = chance.choice(
            (
                (f"taskq campaign pause {path}", "paused"),
                (f"taskq campaign cancel {path} --yes", "cancelled"),
                (f"taskq campaign change {path} --max-running 1", "max_running|max-running"),
                (f"taskq campaign change {path} --require gpu", "gpu"),
                (f"taskq campaign change {path} --weight 0.001", "weight"),
                (f"taskq campaign change {path} --cores 512", "cores"),
                (f"taskq campaign change {path} --memory 900G", "mem"),
                (f"taskq campaign change {path} --gpus 4", "gpu"),
                (f"taskq campaign change {path} --resource licence=1", "licence"),
                (f"taskq campaign change {path} --max-running-per-site 1", "per.site"),
                (f"taskq campaign change {path} -- dokc '{{n}}'", "dokc"),
            )
        )
    problem.what = line
    if problem.words == "dokc":  # explain can show the change, but not undo it
        campaign = farm.stage.client.campaign(path)
        problem.mend = partial(campaign.change, campaign.spec())
    if form.name == ALWAYS:
        farm.seeded.add(path)  # one that is cancelled takes no seeds
        problem.before = partial(_seed_and_order, farm, path, line)
    else:
        problem.strike = partial(_order, farm, line)
    return problem


def _seed_and_order(farm: Farm, path: str, line: str) -> None:
    farm.seed(path)
    _order(farm, line)


def _order(farm: Farm, line: str) -> None:
    """Give an order; one that is refused plants nothing."""
    ended = farm.stage.type(line)
    assert ended.returncode == 0, ended.stderr


def _start_anew(farm: Farm, site: str, hosts: Sequence[Host]) -> None:
    farm.stage.token(site, f"{site}-next")
    for host in hosts:
        host.restart(token=f"{site}-next")


def _seeded_badly(farm: Farm, problem: Problem) -> Problem:
    """Let payloads lack a field that the program needs."""
    path = problem.places[0]

    def seed() -> None:
        farm.seed(path, lacks=lambda n: n % 3 == 1)

    def cancel() -> None:  # payloads do not change
        farm.stage.client.campaign(path).cancel(where="payload.smiles = null")

    farm.seeded.add(path)
    problem.what, problem.words = (
        f"seeds of {path} lack the field smiles",
        "smiles|field|placeholder-missing|KeyError",
    )
    problem.before, problem.shows, problem.mend = seed, FAILS, cancel
    return problem
