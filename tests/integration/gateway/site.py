"""A site: worker nodes that reach gateways over TLS and have nothing of ours but the agent."""

from __future__ import annotations

import re
import secrets
import ssl
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trustme

from taskq import Campaign, CampaignSpec, Handler
from tests.fixtures.gateways import GatewayProcess, Realm
from tests.helpers.command_line import CommandLine
from tests.helpers.worker_node import WorkerNode

#: A shell script that notes a task in the diary and ends when there is a file: $1, $2, $3.
NOTED_UNTIL_RELEASED = 'echo "$1 $DIARY_AGENT" >> "$2"; until [ -e "$3" ]; do sleep 0.05; done'


@contextmanager
def upkeep(dsn: str) -> Iterator[None]:
    """Have a keeper expire what it may; it must outlive whatever happens."""
    with CommandLine(dsn).process("keeper", "--quiet") as keeper:
        yield
        assert keeper.poll() is None
        keeper.terminate()
        keeper.communicate()


class Site:
    """Nodes, what they trust, and a diary of what they have executed.

    certificate: the words that give a gateway its certificate; trust: what a client of it needs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.diary = folder / "diary"
        authority = trustme.CA()
        self.ca = folder / "ca.pem"
        authority.cert_pem.write_to_path(str(self.ca))
        pem = folder / "gateway.pem"
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(pem))
        self.certificate = ("--tls-cert", pem, "--tls-key", pem)
        self.trust = ssl.create_default_context(cafile=str(self.ca))

    def node(self, token: str) -> WorkerNode:
        """Return a new node, with the site's token."""
        folder = self._folder / f"node-{secrets.token_hex(4)}"
        folder.mkdir()
        node = WorkerNode(folder)
        node.token.write_text(token)
        node.environment["DIARY_AGENT"] = folder.name
        return node

    def params(self, **others: Any) -> dict[str, Any]:
        """Return the parameters of campaigns whose payloads keep the diary."""
        return {"diary": str(self.diary), **others}

    def unhurried(self, place: Realm, tasks: int, takes_s: float) -> Campaign:
        """Return a campaign with so many tasks, each of so many seconds and in the diary."""
        spec = CampaignSpec(
            f"{place.path}/c",
            handler=Handler("python", target="unhurried:run"),
            params=self.params(takes_s=takes_s),
        )
        campaign = place.queue.create_campaign(spec)
        campaign.seed({"n": n} for n in range(tasks))
        return campaign

    def executions(self) -> Counter[int]:
        """Return how often each task was begun, by its number."""
        lines = self.diary.read_text().splitlines() if self.diary.exists() else []
        return Counter(int(line.split()[0]) for line in lines)

    def exchanges(self, gateway: GatewayProcess, manager: str) -> float:
        """Return how many exchanges a gateway has served."""
        reply = gateway.peer(tls=self.trust).ask("GET", "/metrics", token=manager)
        found = re.search(rb"^taskq_gateway_exchanges_total (\S+)$", reply.body, re.MULTILINE)
        assert found, reply
        return float(found[1])
