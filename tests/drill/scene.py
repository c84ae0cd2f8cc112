"""Kinds of problems, and the scene in which one of them is planted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

from taskq import CampaignSpec, Handler, RetryPolicy, Seed
from tests.drill.stage import ROOT, Host, Stage

TASKS: Final = 120


@dataclass(frozen=True)
class Signs:
    """What a good answer holds, all of it in one reason.

    says: patterns of its text and its commands: the name of the object, the word of the cause.
    remedy: a pattern of the command that helps. repair: what a person does before that, outside of
    taskq. healed: whether it has helped. within_s: how long explain has to name it.
    """

    says: tuple[str, ...]
    remedy: str
    repair: Callable[[], object] = lambda: None
    healed: Callable[[], object] = lambda: True
    within_s: float = 45.0


Plant: TypeAlias = "Callable[[Scene], Signs]"


@dataclass(frozen=True)
class Kind:
    """A kind of problem. alone: whether its stage has no other."""

    name: str
    plant: Plant
    alone: bool
    prepare: Callable[[Stage], object] | None


KINDS: Final[dict[str, Kind]] = {}


def kind(
    name: str, *, alone: bool = False, prepare: Callable[[Stage], object] | None = None
) -> Callable[[Plant], Plant]:
    """Register a kind. prepare: starts the stage's gateways; by default there is one."""

    def register(plant: Plant) -> Plant:
        assert name not in KINDS
        KINDS[name] = Kind(name, plant, alone or prepare is not None, prepare)
        return plant

    return register


@dataclass(frozen=True)
class Site:
    """A site with its hosts."""

    name: str
    hosts: list[Host]

    def restart(self, **options: Any) -> None:
        """Kill its agents, and start others; options: see `Host.start`."""
        for host in self.hosts:
            host.restart(**options)


@dataclass
class Scene:
    """Part of a stage that belongs to one kind. guilty: names that an answer may accuse."""

    stage: Stage
    guilty: set[str] = field(default_factory=set)

    def campaign(
        self,
        tasks: int = TASKS,
        *,
        innocent: bool = False,
        paused: bool = False,
        bytes_of_a_task: int = 0,
        **settings: Any,
    ) -> str:
        """Make a campaign with tasks, of which none runs while it is paused; return its path."""
        name = self.stage.word()
        spec: dict[str, Any] = {
            "path": f"{ROOT}/{name}",
            "handler": Handler("command", argv=("dock", "{params.name}", "{n}")),
            "params": {"name": name},
            "retry": RetryPolicy(backoff_s=1.0),
        }
        made = self.stage.client.create_campaign(CampaignSpec(**(spec | settings)))
        if paused:
            made.pause()
        text = self.stage.random.randbytes(bytes_of_a_task // 2).hex()
        made.seed(Seed({"n": n, "text": text}, f"n={n}") for n in range(tasks))
        self.stage.campaigns.append(made.path)
        if not innocent:
            self.guilty.add(made.path)
        return made.path

    def host(self) -> Host:
        """Take a host for oneself, whose agent runs."""
        machine = self.stage.random.choice(self.stage.free_hosts())
        self.stage.taken.add(machine.name)
        self.guilty.add(machine.name)
        return machine

    def site(self) -> Site:
        """Take a site for oneself with all its hosts."""
        free = {host.site for host in self.stage.free_hosts()}
        free -= {self.stage.hosts[name].site for name in self.stage.taken & self.stage.hosts.keys()}
        name = self.stage.random.choice(sorted(free))
        hosts = [host for host in self.stage.hosts.values() if host.site == name]
        self.stage.taken |= {host.name for host in hosts}
        self.guilty |= {name, *(host.name for host in hosts)}
        return Site(name, hosts)

    def everywhere(self, shell: str, campaign: str) -> None:
        """Let a campaign go wrong on all hosts."""
        for host in self.stage.hosts.values():
            host.trouble(shell, campaign)

    def install(self, program: str, name: str) -> None:
        """Write a program on all hosts."""
        for host in self.stage.hosts.values():
            host.install(program, name)

    def mend(self, campaign: str) -> None:
        """Undo `everywhere`."""
        for host in self.stage.hosts.values():
            host.mend(campaign)

    def mending(self, path: str) -> tuple[Callable[[], object], Callable[[], object]]:
        """Return `repair` and `healed` of signs: undo `everywhere`; then all tasks were done."""
        return partial(self.mend, path), lambda: self.left(path) == 0

    def left(self, path: str) -> int:
        """Return how many tasks of a campaign have not been done."""
        status = self.stage.client.campaign(path).status()
        return status.total - status.done
