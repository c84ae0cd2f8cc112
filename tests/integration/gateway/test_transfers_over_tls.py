"""Shared inputs and large results, from the queue to the agent's file on a node and back."""

from __future__ import annotations

import hashlib
import secrets
from contextlib import ExitStack
from pathlib import Path

import pytest

from taskq import CampaignSpec, Client, Handler
from tests.fixtures.gateways import Realm, StartGateway
from tests.helpers.pythons import pythons
from tests.helpers.waiting import wait_until
from tests.helpers.worker_node import AgentResult
from tests.integration.gateway.bottleneck import Bottleneck
from tests.integration.gateway.site import Site

pytestmark = pytest.mark.thorough

INPUT_BYTES = 6_000_000
RESULT_BYTES = 1_000_000
BROKEN_AFTER = 3_000_000
#: What other answers, TLS, and chunks that had not been written when the transfer broke amount to.
OVERHEAD_BYTES = 1_000_000
TASKS = 4
PAYLOAD = f"""
import hashlib, json, os

def work(payload, shared):
    with open(json.loads(os.environ["TASKQ_INPUTS"])["receptor"], "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    seed = str(payload["n"]).encode()
    return {{"digest": digest, "text": hashlib.shake_256(seed).hexdigest({RESULT_BYTES // 2})}}
"""


@pytest.fixture(autouse=True)
def _no_other_blobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TASKQ_BLOBS", raising=False)


def test_transfer_that_breaks_goes_on_at_another_gateway(
    queue: Client, start_gateway: StartGateway, tmp_path: Path
) -> None:
    """A gateway is killed in the midst of an input.

    The other serves the rest only, once for all agents of the node, and takes in large results.
    """
    site = Site(tmp_path)
    gateways = [start_gateway(*site.certificate) for _ in range(2)]
    place = Realm(queue, gateways[0])
    campaign = queue.create_campaign(
        CampaignSpec(f"{place.path}/c", handler=Handler("python", target="receptors:work"))
    )
    receptor = tmp_path / "receptor"
    receptor.write_bytes(secrets.token_bytes(INPUT_BYTES))
    campaign.add_input(receptor)
    campaign.seed({"n": n} for n in range(TASKS))
    node = site.node(place.site)
    (node.folder / "receptors.py").write_text(PAYLOAD)

    with ExitStack() as stack:
        ways = [stack.enter_context(Bottleneck(gateway.port, BROKEN_AFTER)) for gateway in gateways]
        agents = [
            stack.enter_context(
                node.at_work(
                    *(way.url for way in ways),
                    python=python,
                    ca=site.ca,
                    path=".",
                    cache="cache",
                    until_empty=True,
                )
            )
            for python in (list(pythons().values()) * 2)[:2]  # there may be one only
        ]
        wait_until(lambda: any(way.stuck.is_set() for way in ways), timeout_s=60)
        first, second = sorted(ways, key=lambda way: way.stuck.is_set(), reverse=True)
        second.most = float("inf")
        gateways[ways.index(first)].kill()
        first.close()
        ran = [AgentResult(agent) for agent in agents]
        assert [agent.code for agent in ran] == [0, 0], [agent.err for agent in ran]

    assert first.carried < INPUT_BYTES
    assert second.carried < INPUT_BYTES - BROKEN_AFTER + OVERHEAD_BYTES
    digest = hashlib.sha256(receptor.read_bytes()).hexdigest()
    results = {result.payload["n"]: result.result for result in campaign.results()}
    assert results == {
        n: {
            "digest": digest,
            "text": hashlib.shake_256(str(n).encode()).hexdigest(RESULT_BYTES // 2),
        }
        for n in range(TASKS)
    }
    status = campaign.status()
    assert (status.done, status.failures, status.losses) == (TASKS, 0, 0)
    assert queue.agents() == []
