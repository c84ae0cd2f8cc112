"""The agent in curl: it works over TLS, and shows its tokens to nobody."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from taskq import Client, RetryPolicy
from tests.fixtures.gateways import Realm, StartGateway
from tests.helpers.campaigns import servable
from tests.helpers.paths import ROOT
from tests.helpers.process_arguments import watched_command_lines
from tests.helpers.slot_harness import processes_with
from tests.helpers.waiting import wait_until
from tests.integration.gateway.peers import Agent
from tests.integration.gateway.site import Site

SCRIPT = ROOT / "examples" / "shell-agent" / "curl-agent.sh"
LATER_S = 100.0
PAYLOAD = "import json, sys; n = json.load(sys.stdin)['n']; print(json.dumps({'third': 3 // n}))"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Give a site without nodes, on a machine that has curl."""
    assert shutil.which("curl"), "this test needs curl: `apt-get install curl` as root"
    return Site(tmp_path)


def test_agent_written_with_curl_works_over_http(
    queue: Client, start_gateway: StartGateway, site: Site, tmp_path: Path
) -> None:
    """It waits, claims, completes and fails tasks, in at most 40 lines.

    Anyone who lists the processes meanwhile finds no token, of the site or of the session.
    """
    assert len(SCRIPT.read_text().splitlines()) <= 40
    gateway = start_gateway(*site.certificate)
    place = Realm(queue, gateway)
    path = f"{place.path}/c"
    # The handler is what makes it claimable; this agent has a command of its own.
    campaign = servable(queue, path, retry=RetryPolicy(max_attempts=1))
    campaign.submit({"n": 3})
    other = Agent.enrolled(gateway.peer(tls=site.trust), place.site, {"campaign": path})
    (task,) = other.claim()
    node = site.node(place.site)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    process = subprocess.Popen(
        [SCRIPT, gateway.url, node.token, path, sys.executable, "-c", PAYLOAD],
        env=os.environ | {"CURL_CA_BUNDLE": str(site.ca), "TMPDIR": str(temporary)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process, watched_command_lines() as seen:
        try:
            # It is kept waiting, since somebody else has the only task.
            wait_until(
                lambda: any(
                    line.startswith("curl ") and line.endswith(f"{gateway.url}/v1/exchange")
                    for line in list(seen)
                ),
                timeout_s=LATER_S,
            )
            (kept,) = temporary.iterdir()
            assert kept.stat().st_mode & 0o077 == 0
            session = kept.read_text().split()[-1]
            campaign.seed({"n": n} for n in range(3))
            assert other.report(task, result={"third": 1}) == ["accepted"]
            _, said = process.communicate(timeout=LATER_S)
        finally:
            process.kill()

    assert process.returncode == 0, said
    wait_until(lambda: not processes_with("TMPDIR", str(temporary)))
    results = {result.payload["n"]: result.result for result in campaign.results()}
    assert results == {1: {"third": 3}, 2: {"third": 1}, 3: {"third": 1}}
    status = campaign.status()
    assert (status.done, status.failed, status.losses) == (3, 1, 0)
    assert [*campaign.failure_classes()] == ["command"]
    assert [agent.agent for agent in queue.agents()] == ["peer"]
    assert list(temporary.iterdir()) == []
    assert session.startswith("tqs_")
    for token in (place.site, session):
        assert not any(token in line for line in seen | {said})
