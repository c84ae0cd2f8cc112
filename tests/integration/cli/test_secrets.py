"""No secret is shown: passwords and tokens are in no command line, log, output or error."""

from __future__ import annotations

import re
import secrets
import signal
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from taskq import CampaignSpec, Handler
from tests.fixtures.logins import SECRET, Staff
from tests.fixtures.redis_servers import StartRedis
from tests.helpers.command_line import CommandLine
from tests.helpers.process_arguments import watched_command_lines
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.thorough

REDIS_SECRET = "swordfish-marker"  # noqa: S105  # of a server that lives as long as the test


def said_by(taskq: CommandLine, *words: object, until: str = "") -> str:
    """Return what a command writes; one that would run for ever is ended when it has said this."""
    with taskq.process(*words, stderr=-2) as process:  # -2: with the rest, in one stream
        said = ""
        assert process.stdout is not None
        if until:
            while until not in said:
                line = process.stdout.readline()
                assert line, said
                said += line
            process.send_signal(signal.SIGTERM)
        said += process.communicate(timeout=60)[0]
    return said


def test_passwords_appear_nowhere(staff: Staff, start_redis: StartRedis, tmp_path: Path) -> None:
    """By no command at its most verbose, whether it succeeds or not, to nobody on the machine."""
    path = f"/{secrets.token_hex(6)}"
    spec = CampaignSpec(path, handler=Handler("command", argv=("env",)))
    staff.owner.create_campaign(spec).submit({"n": 1}, key="one")
    redis = start_redis("--requirepass", REDIS_SECRET, tcp=True)
    taskq = staff.login("gateway", "agent", "submitter", "operator").taskq
    taskq.environment["TASKQ_REDIS"] = f"redis://:{REDIS_SECRET}@127.0.0.1:{redis.port}/0"
    token = tmp_path / "token"
    with watched_command_lines() as seen:
        said = [
            said_by(taskq, "gateway", "--listen", "127.0.0.1:0", "--verbose", until="http://"),
            said_by(taskq, "agent", "run", "--campaign", path, "--until-empty", "--verbose"),
            said_by(
                taskq, "token", "create", path, "--kind", "site", "--campaign", path, "--to", token
            ),
            said_by(taskq, "logs", path, "one"),
        ]
        for words in (["db", "status"], ["front", "status"], ["status", path], ["token", "list"]):
            said += [said_by(taskq, *words, "--output", output) for output in ("table", "json")]
        said.append(said_by(taskq, "db", "grant", "reader", "me"))  # refused
        for wrong in ({"dbname": "typo"}, {"user": "typo"}, {"port": "1"}, {"sslmode": "require"}):
            taskq.environment["TASKQ_DSN"] = make_conninfo(taskq.dsn, **wrong)
            said.append(said_by(taskq, "status", path))
        taskq.environment["TASKQ_DSN"] = f"postgresql://me:12/{SECRET}@127.0.0.1/queue"
        said.append(said_by(taskq, "status", path))
    assert "TASKQ_KEY=one" in said[3], said  # the payload has run, and shown its environment
    assert any(f"--campaign {path}" in line for line in seen)
    text = token.read_text().strip()
    for output in (*said, *seen):
        assert SECRET not in output
        assert REDIS_SECRET not in output
        assert text[4:] not in output


@pytest.mark.parametrize("output", ["table", "json"])
def test_token_is_shown_once_only(staff: Staff, output: str) -> None:
    """By the command that makes it; a second of its name, a list and a revocation do not."""
    taskq, name = staff.taskq, secrets.token_hex(6)
    create = ["token", "create", name, "--kind", "manager", "--campaign", "/", "--output", output]
    (token,) = re.findall("tqm_[A-Za-z0-9_-]{43}", taskq.out(*create))
    for words in (create, ["token", "list"], ["token", "revoke", name]):
        result = taskq(*words)
        assert token[4:] not in result.stdout + result.stderr
    wait_until(lambda: "revoked" in taskq.out("token", "list"))
