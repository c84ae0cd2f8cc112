"""Agents on nodes whose environment, limits, streams and folders are odd."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from taskq import CampaignSpec, Client, Handler
from tests.fixtures.gateways import Realm, StartGateway
from tests.helpers.worker_node import WorkerNode

TASKS = 3
#: With letters that an ASCII terminal has not, on both ways out of the payload.
PAYLOAD = """
def run(payload, shared):
    print("gr\u00f6\u00dfe", payload["n"])
    return {"name": "gr\u00f6\u00dfe \u65e5\u672c"}
"""
NAME = "gr\u00f6\u00dfe \u65e5\u672c"
C_LOCALE = "PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 LANG=C LC_ALL=C"
#: What the shell that starts the agent does first: some of it in each test of every day.
USUAL = {
    "asks for statements": "export PYTHONINSPECT=1 PYTHONSTARTUP=/nowhere.py",
    "ASCII": f"export PYTHONIOENCODING=ascii:strict {C_LOCALE}",
}
RARE = {
    "warnings are errors": "export PYTHONWARNINGS=error PYTHONDEVMODE=1",
    "other letters": "export PYTHONIOENCODING=utf-16",
    "Turkish": "export LC_ALL=tr_TR.UTF-8 LANG=tr_TR.UTF-8",
    "no assertions": "export PYTHONOPTIMIZE=2 PYTHONDONTWRITEBYTECODE=1 PYTHONSAFEPATH=1",
    "no home": "unset HOME USER LOGNAME",
    "a home that is not there": "export HOME=/nowhere/at/all XDG_CACHE_HOME=/proc/x",
    "a temporary folder that is not there": "export TMPDIR=/nowhere/at/all",
    "a temporary folder for reading": "export TMPDIR=/proc",
    "open to all": "umask 000",
    "closed to itself": "umask 777",
    "no input": "exec 0<&-",
    "no output": "exec 1>&-",
    "no errors": "exec 2>&-",
    "no streams": "exec 0<&- 1>&- 2>&-",
    "a full log": "exec 2>/dev/full",
    "few files": "ulimit -n 64",
    "little memory": "ulimit -v 1000000",
    "small files": "ulimit -f 100",
    "a small stack": "ulimit -s 256",
    "a folder that is gone": "mkdir gone; cd gone; rmdir ../gone",
    "no programs": "export PATH=",
    "no path": "unset PATH",
    "a zone that is none": "export TZ=:/etc/passwd",
    "ignored signals": "trap '' HUP PIPE CHLD INT USR1",
}


@pytest.mark.parametrize(
    "first",
    [
        *(pytest.param(words, id=what) for what, words in USUAL.items()),
        *(pytest.param(words, id=what, marks=pytest.mark.thorough) for what, words in RARE.items()),
    ],
)
def test_tasks_are_done_on_a_node_that_has(
    queue: Client, start_gateway: StartGateway, tmp_path: Path, first: str
) -> None:
    """Each once, with its letters, and the agent ends as it should."""
    gateway = start_gateway("--lease", 30)
    realm = Realm(queue, gateway)
    code = tmp_path / "code"
    code.mkdir()
    (code / "odd_payload.py").write_text(PAYLOAD, "utf-8")
    node = WorkerNode(tmp_path)
    node.token.write_text(realm.site)
    shell = tmp_path / "python"
    shell.write_text(f'#!/bin/bash\n{first}\nexec {sys.executable} "$@"\n')
    shell.chmod(0o755)
    campaign = queue.create_campaign(
        CampaignSpec(f"{realm.path}/c", handler=Handler("python", target="odd_payload:run"))
    )
    campaign.seed({"n": n} for n in range(TASKS))
    ran = node.run(gateway.url, python=str(shell), until_empty=True, path=code)
    assert (ran.code, "Traceback" in ran.err) == (os.EX_OK, False), ran.err
    assert [result.result for result in campaign.results()] == [{"name": NAME}] * TASKS
    status = campaign.status()
    assert (status.done, status.failures, status.losses) == (TASKS, 0, 0)
