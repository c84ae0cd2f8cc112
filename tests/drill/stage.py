"""Stage of a drill: a database, gateways with TLS, and hosts at sites, all real processes.

Each host has a folder: `bin` with the programs that its tasks find, and a file for each campaign
that goes wrong there. Those files are pieces of shell, which the program `dock` runs first.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import trustme

from taskq import CampaignSpec, Client
from taskq.db import migrations
from taskq.db.connections import Database
from taskq.embedded import Server
from tests.helpers.command_line import PROGRAM
from tests.helpers.waiting import free_port, wait_until

ROOT = "/drill"
LEASE_S = 6.0
SLOTS = 2
#: The fewest sites of a stage.
SITES = 4
HOSTS_OF_A_SITE = 2
#: Seconds in which all processes of a stage must be there.
READY_S = 120.0

_PATH = f"{PROGRAM.parent}:/usr/local/bin:/usr/bin:/bin"
_SITE_NAMES = (
    "aare",
    "birs",
    "emme",
    "inn",
    "kander",
    "limmat",
    "reuss",
    "saane",
    "thur",
    "ticino",
)
_LETTERS = "bdfgkmnprtvz"

#: Tasks are short, though not of one length, and cost next to no CPU.
DOCK = """\
#!/bin/sh
campaign=$1 n=$2
for trouble in "$DRILL_HOME/$campaign" "$DRILL_HOME/all"; do
    if [ -f "$trouble" ]; then . "$trouble"; fi
done
sleep "${seconds:-1.$((n % 5))}"
echo "{\\"energy\\": -${energy:-$((n % 9 + 1)).$((n * 7919 % 97))}}"
"""


_AGAIN = 'while :; do "$@" & echo $! > "$DRILL_HOME/pid"; wait; sleep 1; done'


class Host:
    """A host with one agent. `up`: whether its agent should run."""

    def __init__(self, stage: Stage, name: str, site: str) -> None:
        self.name, self.site = name, site
        self.process: subprocess.Popen[bytes] | None = None
        self.home = stage.folder / name
        self.scratch = self.home / "scratch"
        self._stage = stage
        (self.home / "bin").mkdir(parents=True)
        self.install(DOCK)

    def install(self, program: str, name: str = "dock") -> None:
        """Write a program of the host anew."""
        file = self.home / "bin" / name
        file.write_text(program)
        file.chmod(0o755)

    def trouble(self, shell: str, campaign: str = "all") -> None:
        """Let a piece of shell run before each task, of one campaign or of all."""
        (self.home / campaign.rpartition("/")[2]).write_text(shell + "\n")

    def mend(self, campaign: str = "all") -> None:
        """Undo `trouble`."""
        (self.home / campaign.rpartition("/")[2]).unlink(missing_ok=True)

    def start(
        self,
        *words: str,
        token: str | None = None,
        gateways: Sequence[str] | None = None,
        slots: int = SLOTS,
        again: bool = False,
        limits: str = "",
        **environment: str,
    ) -> None:
        """Start its agent. words: further options; token: a file's name, by default its site's.

        again: whether another one comes a second after it has ended. limits: options of `ulimit`
        that hold for it and its tasks.
        """
        stage = self._stage
        argv = [sys.executable, "-m", "taskq_agent", "run", "--ca", str(stage.ca), "--quiet"]
        argv += ["--host", self.name, "--site", self.site, "--name", f"pilot-{self.name}"]
        argv += ["--token-file", str(stage.folder / f"{token or self.site}.token")]
        for url in gateways or stage.urls:
            argv += ["--gateway", url]
        argv += ["--slots", str(slots), "--ahead", "0.2", "--grace", "0", "--farewell", "2"]
        argv += ["--spool", str(self.home / "spool"), "--cache", str(self.home / "cache")]
        self.scratch.mkdir(exist_ok=True)
        argv += ["--scratch", str(self.scratch)]
        argv += ["--path", str(self.home / "bin"), "--campaign-backoff", "5", *words]
        if limits:
            argv = ["sh", "-c", f'ulimit {limits}; exec "$@"', "sh", *argv]
        if again:
            argv = ["sh", "-c", _AGAIN, "sh", *argv]
        self.process = stage.process(self.name, argv, **self.environment, **environment)
        if not again:
            (self.home / "pid").write_text(str(self.process.pid))

    def kill(self) -> None:
        """Kill its agent."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        """Let its agent do nothing."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def restart(self, **options: Any) -> None:
        """Kill its agent, and start another; options: see `start`."""
        self.kill()
        self.start(**options)

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the processes on this host."""
        return {"DRILL_HOME": str(self.home), "PATH": f"{self.home / 'bin'}:{_PATH}"}


class Stage:
    """A queue with hosts. random: draws all names; urls: of gateways; hosts: by name."""

    def __init__(
        self,
        database: Database,
        folder: Path,
        chance: random.Random,
        stack: ExitStack,
        sites: int = SITES,
    ) -> None:
        self.database, self.folder, self.random = database, folder, chance
        self.client = Client(database)
        self.urls: list[str] = []
        self.gateways: list[subprocess.Popen[bytes]] = []
        self.hosts: dict[str, Host] = {}
        self.campaigns: list[str] = []
        self.sites: list[str] = chance.sample(_SITE_NAMES, sites)
        self.ca, self.blobs = folder / "ca.pem", folder / "blobs"
        self.blobs.mkdir()
        self.stack = stack
        self.taken: set[str] = set()
        self._words: set[str] = set()
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self.ca))
        self._identity = folder / "gateway.pem"
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
            str(self._identity)
        )
        self.environment = {
            **os.environ,
            "TASKQ_DSN": database.dsn,
            "COLUMNS": "100",
            "TASKQ_BLOBS": str(folder / "blobs"),
            "PATH": _PATH,
        }

    def word(self) -> str:
        """Return a name that nothing has yet, such as `kib72`."""
        while True:
            letters = "".join(self.random.choice(_LETTERS) for _ in range(3))
            name = f"{letters}{self.random.randrange(10, 100)}"
            if name not in self._words:
                self._words.add(name)
                return name

    def token(self, site: str, name: str | None = None, **options: Any) -> None:
        """Make a token for the agents of a site, and keep it in a file."""
        name = name or site
        text, _ = self.client.tokens.create("site", name, [ROOT], **options)
        file = self.folder / f"{name}.token"
        file.touch(mode=0o600)
        file.write_text(text)

    def add_hosts(self) -> None:
        """Make the sites, with their tokens and hosts."""
        self.client.create_campaign(CampaignSpec(ROOT))
        for site in self.sites:
            self.token(site)
            for _ in range(HOSTS_OF_A_SITE):
                name = self.word()
                self.hosts[name] = Host(self, name, site)

    def free_hosts(self) -> list[Host]:
        """Return the hosts that no problem has taken."""
        return [host for host in self.hosts.values() if host.name not in self.taken]

    def spare(self) -> Host:
        """Return a new host without an agent, for commands that a person starts somewhere."""
        host = Host(self, self.word(), self.sites[0])
        self.hosts[host.name] = host
        self.taken.add(host.name)
        return host

    def gateway(self, *words: str, program: Sequence[str] = (str(PROGRAM),)) -> str:
        """Start a gateway, the last of `gateways`; return its URL."""
        port = free_port()
        argv = [
            *program,
            "gateway",
            "--listen",
            f"127.0.0.1:{port}",
            "--lease",
            f"{LEASE_S:g}",
            "--quiet",
        ]
        argv += ["--tls-cert", str(self._identity), "--tls-key", str(self._identity)]
        self.gateways.append(self.process(f"gateway-{port}", [*argv, "--drain", "0", *words]))
        self.urls.append(f"https://127.0.0.1:{port}")
        return self.urls[-1]

    def wait_for_agents(self, number: int) -> None:
        """Wait until so many agents are at work."""
        wait_until(
            lambda: len(self.client.agents(limit=100)) >= number,
            timeout_s=READY_S,
            on_timeout=self._logs,
        )

    def process(
        self, name: str, argv: Sequence[str], **environment: str
    ) -> subprocess.Popen[bytes]:
        """Start a process, which is killed at the end; its output goes to a log."""
        with (self.folder / f"{name}.log").open("ab") as log:
            started = subprocess.Popen(
                argv,
                env={**self.environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.stack.callback(started.wait)
        self.stack.callback(_end_group, started.pid)
        return started

    def explain(self) -> list[dict[str, Any]]:
        """Return the reasons that `taskq explain` gives."""
        answer = self.type("taskq explain /drill -o json")
        reasons: list[dict[str, Any]] = json.loads(answer.stdout)["reasons"]
        return reasons

    def type(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a line as a person would type it."""
        return subprocess.run(
            ["sh", "-c", line],
            env=self.environment,
            cwd=self.folder,
            text=True,
            capture_output=True,
            timeout=READY_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def _logs(self) -> str:
        return "\n".join(
            re.sub(r"^", f"{file.name}: ", file.read_text(), flags=re.MULTILINE)
            for file in self.folder.glob("*.log")
        )[-4_000:]


def _end_group(leader: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


@contextmanager
def staged(
    server: Server, folder: Path, chance: random.Random, sites: int = SITES
) -> Iterator[Stage]:
    """Give a stage on a new database of a server that is up; its hosts have no agents yet."""
    parent = Database(server.up().dsn).open()
    try:
        with parent.scratch() as database, ExitStack() as stack:
            migrations.migrate(database)
            stage = Stage(database, folder, chance, stack, sites)
            stage.add_hosts()
            yield stage
    finally:
        parent.close()
