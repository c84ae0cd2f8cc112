"""The steps of docs/high-availability.md, as they stand: from empty folders to tasks that are done.

Each host of the page is an address of this machine, with a folder in the place of its own.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest
import trustme

import taskq
from taskq.embedded.account import server_account
from tests.engines.load import FILES, LATER_S, program
from tests.engines.test_patroni import newest_postgresql, patroni_program
from tests.helpers.command_line import PROGRAM, CommandLine
from tests.helpers.waiting import wait_until

DATABASES, GATEWAYS = ("db1", "db2", "db3"), ("gw1", "gw2")
PROGRAMS = {
    "etcd": "etcd-server",
    "psql": "postgresql-client",
    "haproxy": "haproxy",
    "pgbouncer": "pgbouncer",
}
TASKS = 20
PATH = f"{PROGRAM.parent}:{os.environ['PATH']}:/usr/sbin"


class Site:
    """The hosts of the page, by their addresses. steps: the commands of each step."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.folder = Path(tempfile.mkdtemp(prefix="taskq-page-"))
        stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self._account = server_account(self.folder / "none")
        page = (FILES.parent / "high-availability.md").read_text(encoding="utf-8")
        steps = page.partition("### Step by step")[2].partition("\n### ")[0]
        self.environment = os.environ | {"PATH": PATH}
        self.steps = re.findall(r"^```\n(.*?)^```$", steps, re.MULTILINE | re.DOTALL)
        net = f"127.{random.randint(1, 254)}.{random.randint(1, 254)}"
        self.address = {name: f"{net}.{n}" for n, name in enumerate(DATABASES + GATEWAYS, 1)}
        authority = trustme.CA()
        self.ca = self.folder / "ca.pem"
        authority.cert_pem.write_to_path(str(self.ca))
        issued = authority.issue_cert(*(self.address[name] for name in GATEWAYS))
        for host in self.address:
            etc = self._etc(host)
            etc.mkdir(parents=True)
            for file in FILES.iterdir():
                (etc / file.name).write_text(self._as_on(host, file.read_text(encoding="utf-8")))
            issued.private_key_pem.write_to_path(str(etc / "key.pem"))
            issued.cert_chain_pems[0].write_to_path(str(etc / "chain.pem"))
            for path in (self.folder / host, etc, *etc.iterdir()):
                os.chown(path, self._account.uid, self._account.gid)
        os.chown(self.folder, self._account.uid, self._account.gid)

    def start(self, host: str, step: int, *, as_postgres: bool = False) -> None:
        """Start each command of a step, which are services, and end them when all is over."""
        for command in self._as_on(host, self.steps[step]).splitlines():
            name, *words = shlex.split(command)
            words = [shutil.which(name, path=PATH) or name, *words]
            with (self.folder / f"{host}.log").open("ab") as log:
                if as_postgres:
                    process = self._account.launch(words, log.fileno())
                else:
                    environment = self.environment | {"TASKQ_DSN": self.dsn("taskq")}
                    process = subprocess.Popen(words, stdout=log, stderr=log, env=environment)
            self._stack.callback(process.wait, LATER_S)
            self._stack.callback(process.terminate)

    def run(self, host: str, step: int) -> None:
        """Run the commands of a step, which must succeed."""
        ran = subprocess.run(
            ["bash", "-eu", "-c", self._as_on(host, self.steps[step])],
            capture_output=True,
            text=True,
            check=False,
            timeout=LATER_S,
            env=self.environment,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr + self.said()

    def dsn(self, user: str) -> str:
        """Return the DSN of all databases."""
        password = {"postgres": "secret1", "taskq": "secret4"}[user]
        hosts = ",".join(self.address[host] for host in DATABASES)
        name = "postgres" if user == "postgres" else "taskq"
        return f"postgresql://{user}:{password}@{hosts}/{name}"

    def said(self) -> str:
        """Return the ends of all logs."""
        return "\n".join(log.read_text()[-2_000:] for log in self.folder.glob("*.log"))

    def _etc(self, host: str) -> Path:
        return self.folder / host / "etc"

    def _as_on(self, host: str, text: str) -> str:
        """Return a text of the page as it is used on a host, with what is this machine's."""
        own = [
            line.replace("db1", host) if "# this host" in line else line
            for line in text.splitlines()
        ]
        text = "\n".join(own) + "\n"
        address = self.address[host]
        for name, its in self.address.items():
            text = text.replace(f"{name}.example.org", its)
        sockets = f"  parameters: {{unix_socket_directories: {self.folder / host}}}"
        for there, here in {
            "0.0.0.0": address,  # noqa: S104  # which is not listened at
            "bind :": f"bind {address}:",
            "listen_addr = *": f"listen_addr = {address}",
            "host=127.0.0.1 port=5000": f"host={address} port=5000",
            "/etc/taskq": str(self._etc(host)),
            "/var/lib/etcd": str(self.folder / host / "etcd"),
            "/var/lib/postgresql/15/taskq": str(self.folder / host / "data"),
            "  bin_dir: /usr/lib/postgresql/15/bin": f"  bin_dir: {newest_postgresql()}\n{sockets}",
            "/run/pgbouncer": str(self.folder / host),
            "/var/log/pgbouncer": str(self.folder / host),
            "/opt/patroni/bin/patroni": patroni_program(),
        }.items():
            text = text.replace(there, here)
        return text


@pytest.fixture
def site() -> Iterator[Site]:
    """Give the hosts, on which nothing runs yet."""
    for name, package in PROGRAMS.items():
        program(name, package)
    with ExitStack() as stack:
        yield Site(stack)


def leads(dsn: str) -> bool:
    """Return whether there is a server that takes writes."""
    try:
        psycopg.connect(dsn, target_session_attrs="read-write", connect_timeout=3).close()
    except psycopg.OperationalError:
        return False
    return True


def test_page_leads_from_empty_folders_to_tasks_that_are_done(site: Site) -> None:
    """Through both gateways; and PgBouncer leads to the same queue."""
    _, databases, create, migrate, gateway, pooler, agent = range(len(site.steps))
    for host in DATABASES:
        site.start(host, databases, as_postgres=True)
    superuser = site.dsn("postgres")
    wait_until(lambda: leads(superuser), timeout_s=LATER_S, on_timeout=site.said)
    site.run("db1", create)
    site.run("gw1", migrate)
    for host in GATEWAYS:
        site.start(host, gateway)
    site.start("gw1", pooler, as_postgres=True)
    site.environment["SSL_CERT_FILE"] = str(site.ca)
    site.start("gw1", agent)
    with closing(taskq.connect(site.dsn("taskq"))) as queue:
        campaign = queue.campaign("/demo")
        campaign.seed({"n": n} for n in range(TASKS))
        wait_until(lambda: campaign.status().done == TASKS, timeout_s=LATER_S, on_timeout=site.said)
    pooled = f"postgresql://taskq:secret4@{site.address['gw1']}:6432/taskq"
    wait_until(lambda: leads(pooled), timeout_s=LATER_S, on_timeout=site.said)
    assert CommandLine(pooled).json("status", "/demo")["done"] == TASKS
