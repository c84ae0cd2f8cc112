"""What payloads do to the places that their agent needs; it goes on serving others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from taskq_agent import scratch
from taskq_agent.protocol import DONE
from tests.helpers.memory_gateway import gateway_of
from tests.helpers.memory_queue import MemoryQueue
from tests.helpers.variants import rest_thorough
from tests.helpers.waiting import wait_until
from tests.helpers.worker_node import AgentResult, WorkerNode

#: Root may do anything to any folder; without this right it is like other users.
ORDINARY = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
DEEP = f"""{sys.executable} -c '
import os
for _ in range(3000):
    os.mkdir("d")
    os.chdir("d")
    os.chmod(".", 0o300)
'"""
ATTACKS = {
    "closes its folder": 'chmod 000 "$TASKQ_SCRATCH"',
    "closes the folder above": 'chmod 000 "$SLOT"',
    "closes the root": 'chmod 000 "$ROOT"',
    "makes the root read-only": 'chmod 500 "$ROOT" "$SLOT"',
    "removes the folder above": 'rm -rf "$SLOT"',
    "removes the root": 'rm -rf "$ROOT"',
    "puts a file in place of the root": 'rm -rf "$ROOT"; touch "$ROOT"',
    "puts a link in place of the root": 'rm -rf "$ROOT"; ln -s /no/such/folder "$ROOT"',
    "puts a FIFO in place of the folder above": 'rm -rf "$SLOT"; mkfifo "$SLOT"',
    "makes folders ahead": 'for n in 1 2 3 4 5; do mkdir "$SLOT/$n-task$n" "$SLOT/$n-inputs"; done',
    "leaves a closed tree": "mkdir -p a/b/c && touch a/b/c/d && chmod 000 a/b/c a/b a",
    "leaves a deep closed tree": DEEP,
    "leaves FIFOs": 'mkfifo "$TASKQ_RESULT" "$TASKQ_PROGRESS" "$TASKQ_OUT/pose"',
    "leaves a huge result": 'truncate -s 1T "$TASKQ_RESULT" "$TASKQ_PROGRESS" "$TASKQ_OUT/pose"',
    "closes the spool": 'chmod 000 "$SPOOL"',
    "removes the spool": 'rm -rf "$SPOOL"; touch "$SPOOL"',
    "leaves a process that closes all": (
        'setsid sh -c "while :; do chmod 000 $SLOT/* $SLOT $ROOT; done" '
        "< /dev/null > /dev/null 2>&1 &"
    ),
}
PLACES = 'SLOT=$(dirname "$TASKQ_SCRATCH"); ROOT=$(dirname "$SLOT"); SPOOL="$ROOT/../spool"; '


def queue_with(*scripts: str) -> MemoryQueue:
    """Return a queue of shell scripts that leave output files."""
    queue = MemoryQueue({"script": script} for script in scripts)
    handler = {"kind": "command", "argv": ["sh", "-c", "{script}"]}
    queue.campaign = replace(queue.campaign, handler=handler, output_bytes=1 << 20)
    return queue


def served(folder: Path, queue: MemoryQueue, **options: object) -> AgentResult:
    """Work on a queue with an agent that may only do what an ordinary user may."""
    node = WorkerNode(folder)
    words: list[object] = ["run", "--until-empty", "--token-file", node.token]
    words += ["--scratch", folder / "scratch", "--spool", folder / "spool"]
    for name, value in options.items():
        words += [f"--{name}", value]
    with (
        gateway_of(queue) as gateway,
        subprocess.Popen(
            [*ORDINARY, sys.executable, *map(str, (node.agent, *words, "--gateway", gateway.url))],
            env={**node.environment, "TMPDIR": str(folder)},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process,
    ):
        return AgentResult(process)


@pytest.mark.skipif(bool(ORDINARY) and not shutil.which("setpriv"), reason="needs setpriv")
@pytest.mark.parametrize("name", rest_thorough([*ATTACKS], 2))
def test_payload_ends_no_agent_that_serves_others(tmp_path: Path, name: str) -> None:
    """Whatever it does to folders of the user whom both run as, later tasks have theirs."""
    attack = PLACES + ATTACKS[name]
    queue = queue_with(attack, "pwd", attack, "pwd", "pwd")
    result = served(tmp_path, queue, slots=1)
    assert (result.code, result.summary["reason"]) == (0, "nothing is left to do"), result.err
    assert [queue.outcomes(number)[-1] for number in (2, 4, 5)] == [DONE] * 3
    scratch.reopen(str(tmp_path / "scratch"))
    left = [*tmp_path.glob("scratch/*"), *tmp_path.glob("taskq-*-*")]
    wait_until(lambda: not any(path.exists() for path in left), on_timeout=lambda: str(left))
