"""An upgrade under a farm at work: gateways and agents of the release before go on, or wait.

The next release is a copy of this one with a further migration and other functions. It runs next to
this one, on the same database: nothing is lost, nothing is executed twice, and no agent leaves.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from taskq import Campaign, CampaignSpec, Client, Handler
from tests.helpers.audit import assert_audit_is_clean
from tests.helpers.paths import ROOT
from tests.helpers.waiting import free_port, wait_until

pytestmark = pytest.mark.thorough

PACKAGES = {"taskq": "taskq", "sql": "taskq/sql", "agents/taskq_agent": "taskq_agent"}
PACKAGES["cli/taskq_cli"] = "taskq_cli"
#: Tasks that wait, as long as the farm is fed; and those that are done between two steps.
FED = 60
SOME = 60
TIMEOUT_S = 120.0
PAYLOAD = Handler("command", argv=("sh", "-c", "sleep 0.02"))
#: What agents and gateways call for an exchange.
CALLS = ("sql/functions/claims/exchange.sql", "sql/functions/claims/exchange_one.sql")
#: The tables in the order in which exchanges come to them.
MIGRATION = """
    lock table taskq.task, taskq.session, taskq.attempt in access exclusive mode;
    alter table taskq.session add column news text;
    alter table taskq.attempt add column news text;
    alter table taskq.task add column news text;
"""
OTHER_CALLERS = """
begin
    if current_setting('application_name') <> 'taskq-later' then
        raise exception using errcode = 'TQ400', message = 'a call of another release';
    end if;
"""


class Release:
    """A release that is installed in a folder of its own; None: this one."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        for source, target in PACKAGES.items() if folder else ():
            shutil.copytree(ROOT / source, folder / target)

    def edit(self, file: str, *changes: tuple[str, str]) -> None:
        """Replace texts in one of its files of the package `taskq`."""
        assert self.folder is not None
        path = self.folder / "taskq" / file
        text = path.read_text()
        for old, new in changes:
            assert old in text, (file, old)
            text = text.replace(old, new)
        path.write_text(text)

    def start(self, module: str, *words: object, **variables: str) -> subprocess.Popen[bytes]:
        """Start one of its programs."""
        first = "" if self.folder is None else f"sys.path.insert(0, {str(self.folder)!r}); "
        code = f"import sys; {first}from {module} import main; main()"
        return subprocess.Popen(
            [sys.executable, "-c", code, *map(str, words)],
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


class Farm:
    """Gateways with agents, and direct agents, of one campaign."""

    def __init__(self, queue: Client, dsn: str, folder: Path, stack: ExitStack) -> None:
        self.queue = queue
        self.campaign: Campaign = queue.create_campaign(CampaignSpec("/c", handler=PAYLOAD))
        self.fed = 0
        self._enough = threading.Event()
        self._feeder = threading.Thread(target=self._feed)
        stack.callback(self._end_feeding)
        self._feeder.start()
        self._dsn = dsn
        self._version = len(queue.database.rows("installation")[0]["migrations"])
        self._folder = folder
        self._stack = stack
        self._token = folder / "token"
        self._token.touch(mode=0o600)
        self._token.write_text(queue.tokens.create("site", "farm", ["/c"])[0])
        self.ports = [free_port(), free_port()]
        self.gateways = [self.gateway(Release(), port) for port in self.ports]
        self.remote = [self.agent(Release(), f"http-{n}", over_http=True) for n in range(2)]
        self.direct = [self.agent(Release(), f"direct-{n}") for n in range(2)]

    def _feed(self) -> None:
        """Seed tasks, so that the farm is at work however fast it is."""
        while not self._enough.wait(0.2):
            if self.campaign.status().waiting < FED:
                self.campaign.seed({"n": self.fed + n} for n in range(FED))
                self.fed += FED

    def _end_feeding(self) -> None:
        self._enough.set()
        self._feeder.join()

    def _keep(self, process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        def end() -> None:
            process.kill()
            process.wait()

        self._stack.callback(end)
        return process

    def gateway(self, release: Release, port: int) -> subprocess.Popen[bytes]:
        """Start a gateway, which also is a keeper."""
        words = ["gateway", "--listen", f"127.0.0.1:{port}", "--quiet", "--drain", "0"]
        return self._keep(release.start("taskq_cli.main", *words, TASKQ_DSN=self._dsn))

    def agent(
        self, release: Release, name: str, *, over_http: bool = False
    ) -> subprocess.Popen[bytes]:
        """Start an agent, which keeps what it could not deliver for its successor of this name."""
        words = ["run", "--campaign", "/c", "--slots", 2, "--name", name]
        words += ["--spool", self._folder / f"spool-{name}", "--farewell", 3]
        if not over_http:
            words = ["agent", *words]
            return self._keep(release.start("taskq_cli.main", *words, TASKQ_DSN=self._dsn))
        words += ["--token-file", self._token]
        words += [word for port in self.ports for word in ("--gateway", f"http://127.0.0.1:{port}")]
        return self._keep(release.start("taskq_agent.__main__", *words))

    @staticmethod
    def are_there(*processes: subprocess.Popen[bytes]) -> bool:
        """Return whether none of these has ended."""
        return all(process.poll() is None for process in processes)

    def done(self) -> int:
        """Return how many tasks have succeeded."""
        return self.campaign.status().done

    def upgrade(self, release: Release) -> None:
        """Migrate to a release while the farm works; again while something is in the way."""
        code = os.EX_UNAVAILABLE
        while code == os.EX_UNAVAILABLE:
            words = ("db", "migrate")
            code = self._keep(release.start("taskq_cli.main", *words, TASKQ_DSN=self._dsn)).wait(60)
        assert code == 0
        assert len(self.queue.database.rows("installation")[0]["migrations"]) == 1 + self._version
        self._version += 1

    def all_work(self) -> None:
        """Wait until each agent does tasks from now on."""
        before = self.done()

        def is_so() -> bool:
            names = {result.agent for result in self.campaign.results()}
            return self.done() > before + SOME and len(names) == 4

        wait_until(is_so, timeout_s=TIMEOUT_S)

    def some_more(self) -> None:
        """Wait until some more tasks are done."""
        before = self.done()
        wait_until(lambda: self.done() > before + SOME, timeout_s=TIMEOUT_S)

    def end(self) -> None:
        """Feed no more, and assert that everything is done, once each, and nobody has left."""
        self._end_feeding()
        wait_until(
            lambda: self.done() == self.fed,
            timeout_s=TIMEOUT_S,
            on_timeout=lambda: str(self.campaign.status()),
        )
        assert self.are_there(*self.gateways, *self.remote, *self.direct)
        assert all(result.attempt == 1 for result in self.campaign.results()), "some ran again"
        assert_audit_is_clean(self.queue, "/c")


@pytest.fixture
def farm(queue: Client, dsn: str, tmp_path: Path) -> Iterator[Farm]:
    """Give a farm at work."""
    with ExitStack() as stack:
        yield Farm(queue, dsn, tmp_path, stack)


@pytest.fixture
def later(tmp_path: Path) -> Release:
    """Give the next release: more columns, and functions that return more or something else."""
    release = Release(tmp_path / "later")
    assert release.folder is not None
    (release.folder / "taskq/sql/migrations/0099_later.sql").write_text(MIGRATION)
    release.edit(
        "sql/functions/sessions/beat.sql",
        ("    banned jsonb)", "    banned jsonb, news text)"),
        ("null::jsonb, null::jsonb\n", "null::jsonb, null::jsonb, null::text\n"),
        ("v_banned -> d.session_id::text\n", "v_banned -> d.session_id::text, 'news'\n"),
    )
    release.edit(
        "sql/functions/sessions/enrol_many.sql",
        ("    banned jsonb\n", "    banned jsonb,\n    news text\n"),
    )
    return release


def test_agents_and_gateways_go_on_with_what_still_works(farm: Farm, later: Release) -> None:
    """Results that have gained columns stop nobody: all goes on without a restart."""
    farm.all_work()
    farm.upgrade(later)
    farm.some_more()
    farm.end()


def test_agents_wait_for_gateways_of_the_new_release(farm: Farm, later: Release) -> None:
    """Gateways that know only the old call are restarted; direct agents are replaced, later."""
    for file in CALLS:
        later.edit(
            file,
            ("    p_reports text,\n", "    p_reports jsonb,\n"),
            ("checked_reports(p_reports)", "checked_reports(p_reports::text)"),
        )
    restarted(farm, later)


def test_agents_wait_where_the_old_call_is_malformed_now(farm: Farm, later: Release) -> None:
    """No gateway and no agent takes that for its own fault, for which agents leave."""
    later.edit("db/dsn.py", ('"application_name": "taskq"', '"application_name": "taskq-later"'))
    for file in CALLS:
        later.edit(file, ("\nbegin\n", OTHER_CALLERS))
    restarted(farm, later)


def restarted(farm: Farm, later: Release) -> None:
    """Upgrade a farm in the documented order."""
    farm.all_work()
    farm.upgrade(later)
    for number, gateway in enumerate(farm.gateways):
        gateway.send_signal(signal.SIGTERM)
        assert gateway.wait(30) == 0
        farm.gateways[number] = farm.gateway(later, farm.ports[number])
    farm.some_more()
    assert farm.are_there(*farm.remote, *farm.direct)
    for number, agent in enumerate(farm.direct):
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(60) in (os.EX_OK, os.EX_TEMPFAIL)
        farm.direct[number] = farm.agent(later, f"direct-{number}")
    farm.some_more()
    farm.end()
