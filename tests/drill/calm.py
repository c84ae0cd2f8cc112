"""Calm farms, in which nothing is wrong: every reason of trouble there is false.

Each shape is something that farms do every day. While one is at work, `taskq explain /` is read
every few seconds, and a notification rule watches the root.
"""

from __future__ import annotations

import random
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from taskq import CampaignSpec, Handler, RetryPolicy, Seed
from taskq.diagnosis.events import BY_NAME
from taskq.embedded import Server
from tests.drill.drawn.verdicts import ask, is_trouble
from tests.drill.stage import ROOT, SITES, Host, Stage, staged

_LOOK_S: Final = 4.0
#: A busy machine may keep an agent silent for seconds.
_LEASE_S: Final = 120.0
_AFTER_S: Final = 60
#: Events of which no calm farm sends one.
_EVENTS: Final = ",".join(name for name in BY_NAME if name not in {"finished", "disk"})
_MANY: Final = 200_000
#: A job of a batch system, and how long its successor waits in the queue.
_JOB_S: Final = 25.0
_QUEUED_S: Final = 3.0


@dataclass
class Calm:
    """What a calm farm has heard. said: reasons of trouble, by code and text; asked: how often."""

    shape: str
    asked: int = 0
    done: int = 0
    said: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    @property
    def is_silent(self) -> bool:
        """Whether it has heard of no trouble."""
        return not (self.said or self.messages)

    def hear(self, reasons: list[dict[str, Any]], at_s: float) -> None:
        """Note the reasons of trouble."""
        self.asked += 1
        for reason in reasons:
            if is_trouble(reason):
                key = re.sub(r"\d[\d,.:]*", "N", f"{reason['code']}: {reason['text']}")
                self.said.setdefault(key, f"after {at_s:.0f} s: {reason['code']}: {reason['text']}")


_PROGRAM: Final = """\
#!/bin/sh
n=$1
eval "sleep $2"
echo "{\\"energy\\": -$((n % 9 + 1)).$((n * 7919 % 97))}"
"""


class Yard:
    """A stage of a calm farm, with what its shapes need."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.name = stage.word()
        self._numbers = iter(range(10**9))

    def campaign(self, tasks: int, seconds: str, **settings: Any) -> str:
        """Make a campaign with tasks. seconds: how long each takes, as an expression of `sh`."""
        path = f"{ROOT}/{self.stage.word()}"
        spec = CampaignSpec(
            path,
            handler=Handler("command", argv=("calm", "{n}", "{params.seconds}")),
            params={"seconds": seconds},
            retry=RetryPolicy(backoff_s=1.0),
            **settings,
        )
        self.stage.client.create_campaign(spec)
        self.seed(path, tasks)
        return path

    def seed(self, path: str, tasks: int) -> None:
        """Seed further tasks."""
        numbers = [next(self._numbers) for _ in range(tasks)]
        self.stage.client.campaign(path).seed(Seed({"n": n}, f"n={n}") for n in numbers)

    def start(self) -> None:
        """Start all agents."""
        for host in self.stage.hosts.values():
            host.install(_PROGRAM, "calm")
            host.start()
        self.stage.wait_for_agents(len(self.stage.hosts))

    def pilot(self, site: str, seconds: float) -> tuple[Host, float]:
        """Start a job of a pilot on a host that it has never had; return when the job is to end."""
        stage, number = self.stage, next(self._numbers)
        host = Host(stage, stage.word(), site)
        stage.hosts[host.name] = host
        host.install(_PROGRAM, "calm")
        host.start("--name", f"taskq-{self.name}-0badcafe-{number}", "--grace", "5")
        return host, time.monotonic() + seconds


#: A shape: begins, and yields each time that it has done what is due.
Shape = Callable[[Yard], Iterator[None]]


def steady(yard: Yard) -> Iterator[None]:
    """Work without an end, on hosts that stay."""
    for seconds in ("0.$((n % 5 + 3))", "0.$((n % 3 + 5))"):
        yard.campaign(_MANY // 20, seconds)
    yard.start()
    while True:
        yield


def turnover(yard: Yard) -> Iterator[None]:
    """Let jobs end at their time, and successors come a little later, on other hosts."""
    yard.campaign(_MANY // 20, "0.$((n % 5 + 3))")
    chance, sites = yard.stage.random, yard.stage.sites
    yard.stage.hosts.clear()
    jobs = [yard.pilot(sites[n % len(sites)], _JOB_S * (n + 2) / 6) for n in range(8)]
    due: list[float] = []
    while True:
        now = time.monotonic()
        for job in [job for job in jobs if job[1] <= now]:
            jobs.remove(job)
            assert job[0].process is not None
            job[0].process.terminate()
            due.append(now + chance.uniform(0.2, 2.0) * _QUEUED_S)
        for when in [when for when in due if when <= now]:
            due.remove(when)
            jobs.append(yard.pilot(chance.choice(sites), chance.uniform(0.5, 1.5) * _JOB_S))
        yield


def long_tasks(yard: Yard) -> Iterator[None]:
    """Let few tasks take long, each another time."""
    yard.campaign(600, "$((n * 7 % 25 + 20))")
    yard.start()
    while True:
        yield


def sharing(yard: Yard) -> Iterator[None]:
    """Share agents among campaigns by their weights."""
    for weight in (1.0, 2.0, 5.0):
        yard.campaign(_MANY // 20, "0.$((n % 5 + 3))", weight=weight)
    yard.start()
    while True:
        yield


def ending(yard: Yard) -> Iterator[None]:
    """Let campaigns end, with some stragglers, and seed them anew after a rest."""
    seconds = "$((n % 50 ? 0 : 6)).$((n % 5 + 3))"
    paths = [yard.campaign(200, seconds), yard.campaign(120, seconds)]
    yard.start()
    ended: dict[str, float] = {}
    while True:
        for path in paths:
            if yard.stage.client.campaign(path).status().unfinished:
                ended.pop(path, None)
            elif time.monotonic() > ended.setdefault(path, time.monotonic()) + 2 * _LOOK_S:
                yard.seed(path, 150)
        yield


def nightly(yard: Yard) -> Iterator[None]:
    """Drain a site, as was announced, and let it come back in the morning."""
    yard.campaign(_MANY // 20, "0.$((n % 5 + 3))")
    yard.start()
    site = yard.stage.sites[0]
    hosts = [host for host in yard.stage.hosts.values() if host.site == site]
    while True:
        yield from _for(30.0)
        yard.stage.type(f"taskq agent drain --site {site}")
        yield from _for(45.0)
        for host in hosts:
            host.start()


def _for(seconds: float) -> Iterator[None]:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        yield


SHAPES: Final[dict[str, Shape]] = {
    "steady": steady,
    "turnover": turnover,
    "long": long_tasks,
    "sharing": sharing,
    "ending": ending,
    "nightly": nightly,
}


def keep_calm(server: Server, shape: str, seconds: float, seed: str = "1") -> Calm:
    """Keep a farm of a shape at work for so long, and return what it has heard."""
    folder = Path(tempfile.mkdtemp(prefix="taskq-calm-"))
    found = Calm(shape)
    try:
        with staged(server, folder, random.Random(f"{seed} {shape}"), SITES) as stage:
            stage.gateway("--lease", f"{_LEASE_S:.0f}")
            begun = time.monotonic()
            yard = Yard(stage)
            with _watched(stage, found):
                for _ in SHAPES[shape](yard):
                    if (at_s := time.monotonic() - begun) > seconds:
                        break
                    found.hear(ask(stage), at_s)
                    time.sleep(_LOOK_S)
            found.done = stage.client.campaign(ROOT).status().done
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return found


@contextmanager
def _watched(stage: Stage, found: Calm) -> Iterator[None]:
    """Let a rule watch the root, and note the messages that it sends."""
    rule = f"--on {_EVENTS} --to webhook:https://127.0.0.1:9/ --after {_AFTER_S}s"
    added = stage.type(f"taskq notify add calm --campaign / {rule}")
    assert added.returncode == 0, added.stderr
    stage.process("keeper", ["taskq", "keeper"])
    yield
    events = stage.client.notifications.events("calm")
    found.messages = [f"{event.event}: {event.subject} {event.figures}" for event in events]
