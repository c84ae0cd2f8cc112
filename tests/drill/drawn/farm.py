"""The farm in which problems are drawn: three campaigns with handlers of their own, and its pulse.

All programs of a host begin with the pieces of shell that lie in its folder; see `stage`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
from psycopg.rows import tuple_row

from taskq import CampaignSpec, Handler, RetryPolicy, Seed
from taskq.model.errors import TaskqError
from taskq.model.views import Status
from tests.drill.drawn.forms import SORTS, size_of
from tests.drill.stage import ROOT, Host, Stage
from tests.helpers.waiting import wait_until

TASKS: Final = 1_400
WARM: Final = 60
USUAL: Final = 30
"""Tasks that must have ended before something happens in a farm at work, and in a campaign."""
_LONG_S: Final = 2.5
_LOCKED_S: Final = 2.0
_BULK: Final = 20_000

#: Tasks take 0.3 to 0.8 s, by their size. bad: whether the input is damaged.
_PROGRAM: Final = """\
#!/bin/sh
campaign=$1 n=$2 size=$3 smiles=$4
seconds=0.$((size + 3))
answer="{\\"energy\\": -$((n % 9 + 1)).$((n * 7919 % 97))}"
for trouble in "$DRILL_HOME/$campaign" "$DRILL_HOME/all"; do
    if [ -f "$trouble" ]; then . "$trouble"; fi
done
case $smiles in
    *'('*')'*) ;;
    *'('*) if [ -f "$DRILL_HOME/symptom" ]; then . "$DRILL_HOME/symptom"; fi ;;
esac
sleep "$seconds"
printf '%s\\n' "$answer"
"""
_POSE: Final = """\
#!/bin/sh
dock "$@" > "$TASKQ_RESULT.part" || exit
mv "$TASKQ_RESULT.part" "$TASKQ_RESULT"
"""
#: A module that calls the program, and ends as it does.
_FOLD: Final = """\
import json, os, subprocess

def run(payload, params):
    words = [params["name"], str(payload["n"]), str(payload["size"]), payload["smiles"]]
    ended = subprocess.run(["dock", *words], capture_output=True, text=True)
    if ended.returncode < 0:
        os.kill(os.getpid(), -ended.returncode)
    if ended.returncode:
        raise RuntimeError(f"exit-{ended.returncode}: {ended.stderr.strip()}")
    return json.loads(ended.stdout) if ended.stdout.strip() else None
"""
_ARGUMENTS: Final = ("{params.name}", "{n}", "{size}", "{smiles}")


def payload(n: int, *, damaged: bool = False) -> dict[str, Any]:
    """Return the payload of a task; a damaged SMILES lacks a parenthesis."""
    smiles = f"C1CC(N{n})C1" if n % SORTS else f"[Se]C(C{n})C"
    return {"n": n, "size": size_of(n), "smiles": smiles.replace(")", "") if damaged else smiles}


@dataclass(frozen=True)
class Pulse:
    """What the farm has done until now. done: tasks by campaign; here: agents that are heard."""

    at: float
    done: dict[str, int]
    unfinished: dict[str, int]
    failed: int
    odd: int
    long: int
    hung: int
    here: int


@dataclass
class Farm:
    """A stage with campaigns.

    spoiled: names of what a problem has taken, which others leave. seeded: campaigns whose tasks a
    problem seeds itself. bulk: whether some tasks of the others are much text.
    """

    stage: Stage
    spoiled: set[str] = field(default_factory=set)
    seeded: set[str] = field(default_factory=set)
    bulk: bool = False

    def __post_init__(self) -> None:
        """Make the campaigns, without tasks."""
        for host in self.stage.hosts.values():
            host.install(_PROGRAM, "dock")
            host.install(_POSE, "pose")
            host.install(_FOLD, "fold.py")
        handlers = [
            Handler("command", argv=("dock", *_ARGUMENTS)),
            Handler("command", argv=("pose", *_ARGUMENTS)),
            Handler("python", target="fold:run"),
        ]
        self.campaigns = [self._campaign(handler) for handler in handlers]

    def _campaign(self, handler: Handler) -> str:
        name = self.stage.word()
        made = self.stage.client.create_campaign(
            CampaignSpec(
                f"{ROOT}/{name}",
                handler=handler,
                params={"name": name},
                retry=RetryPolicy(backoff_s=1.0),
                best="lowest result.energy",
            )
        )
        self.stage.campaigns.append(made.path)
        return made.path

    def take_campaign(self, most: int = 3) -> str:
        """Take one of the first `most` campaigns for a problem."""
        free = [path for path in self.campaigns[:most] if path not in self.spoiled]
        self.spoiled.add(path := self.stage.random.choice(free))
        return path

    def take_site(self) -> tuple[str, list[Host]]:
        """Take a site for a problem, with its hosts."""
        free = [
            site
            for site in self.stage.sites
            if not {site, *(host.name for host in self.hosts_of(site))} & self.spoiled
        ]
        site = self.stage.random.choice(free)
        self.spoiled |= {site, *(host.name for host in self.hosts_of(site))}
        return site, self.hosts_of(site)

    def take_host(self) -> Host:
        """Take a host for a problem; its site is nobody else's place then."""
        free = [
            host for host in self.stage.hosts.values() if not {host.site, host.name} & self.spoiled
        ]
        host = self.stage.random.choice(free)
        self.spoiled |= {host.name, host.site}
        return host

    def hosts_of(self, site: str) -> list[Host]:
        """Return the hosts of a site."""
        return [host for host in self.stage.hosts.values() if host.site == site]

    def seed(
        self,
        path: str,
        damaged: Callable[[int], bool] = lambda _: False,
        numbers: Iterable[int] = range(TASKS),
        lacks: Callable[[int], bool] = lambda _: False,
    ) -> None:
        """Seed tasks, of which some inputs are damaged, and some lack their SMILES."""

        def made(n: int) -> dict[str, Any]:
            found = payload(n, damaged=damaged(n))
            if self.bulk and n % SORTS == 0:
                found["text"] = self.stage.random.randbytes(_BULK // 2).hex()
            if lacks(n):
                del found["smiles"]
            return found

        seeds = (Seed(made(n), f"n={n}") for n in numbers)
        self.stage.client.campaign(path).seed(seeds)

    def begin(self) -> None:
        """Seed what no problem seeds, and start the agents that no problem starts."""
        for path in self.campaigns:
            if path not in self.seeded:
                self.seed(path)
        for host in self.stage.hosts.values():
            if host.process is None:
                host.start()
        self.stage.wait_for_agents(1)

    def warm(self, late: Iterable[str | None] = ()) -> None:
        """Wait until some tasks have ended in any way; and some of each campaign that is hit late.

        Before that nobody can know what is usual there.
        """
        its = [path for path in late if path is not None]

        def is_warm() -> bool:
            now = self.pulse()
            known = all(now.done[path] >= USUAL for path in its)
            return known and sum(now.done.values()) + now.failed >= WARM

        wait_until(is_warm, timeout_s=120.0)

    def pulse(self) -> Pulse:
        """Return what the farm has done; raise an error while somebody locks a table."""
        rows = self.stage.database.in_snapshot(
            lambda snapshot: snapshot.rows("counts", path=ROOT, depth=1), lock_wait_s=_LOCKED_S
        )
        states = [it for it in (Status(**row) for row in rows) if it.path in self.campaigns]
        with psycopg.connect(self.stage.database.dsn, row_factory=tuple_row) as connection:
            connection.execute(f"set lock_timeout = '{_LOCKED_S:.0f}s'".encode())
            found = connection.execute(_PULSE, {"long": _LONG_S}).fetchone()
        assert found is not None
        odd, long, hung, here = found
        return Pulse(
            at=time.monotonic(),
            done={it.path: it.done for it in states},
            unfinished={it.path: it.unfinished for it in states},
            failed=sum(it.failures + it.losses for it in states),
            odd=odd,
            long=long,
            hung=hung,
            here=here,
        )

    def every(self, seconds: float, act: Callable[[], object]) -> Callable[[], None]:
        """Do something again and again, in a thread, until the returned function is called."""
        ended = threading.Event()

        def work() -> None:
            while not ended.wait(seconds):
                with suppress(TaskqError, psycopg.Error, OSError):
                    act()

        thread = threading.Thread(target=work)

        def end() -> None:
            ended.set()
            if thread.is_alive():
                thread.join()

        self.stage.stack.callback(end)
        thread.start()
        return end

    def trouble(
        self, hosts: Sequence[Host], shell: str, campaign: str = "all"
    ) -> Callable[[], None]:
        """Let a piece of shell run on hosts; return what undoes it."""
        for host in hosts:
            host.trouble(shell, campaign)

        def mend() -> None:
            for host in hosts:
                host.mend(campaign)

        return mend


_PULSE: Final = """
select (select count(*) from taskq.attempt a
         where a.outcome = 'done'
           and case jsonb_typeof(a.result -> 'energy')
                 when 'number' then (a.result ->> 'energy')::numeric not between -10 and -1
                 else true end),
       (select count(*) from taskq.attempt a
         where a.outcome in ('done', 'cancelled')
           and a.ended_at - a.claimed_at > make_interval(secs => %(long)s)),
       (select count(*) from taskq.bundle b where b.claimed_at < clock_timestamp() - interval '8 s')
       + (select count(*) from taskq.task t
           where t.status = 'working' and t.claimed_at < clock_timestamp() - interval '8 s'),
       (select count(*) from taskq.session s
         where s.ended_at is null and s.session_id <> 0
           and s.heartbeat_at > clock_timestamp() - interval '4 s')
"""
