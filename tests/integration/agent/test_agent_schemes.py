"""An address of the wrong scheme is reported before anything is claimed, not retried for ever."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from taskq_agent.errors import TransportFailed
from taskq_agent.http.answers import wrong_scheme
from taskq_agent.http.connections import Dialer
from taskq_agent.http.gateways import GatewayList, parsed
from taskq_agent.http.transport import HttpTransport
from tests.helpers.certificates import Certificates
from tests.helpers.memory_gateway import TOKEN, Reply, gateway_of
from tests.helpers.worker_node import TIMEOUT_S, WorkerNode
from tests.integration.agent.test_agent_tls import open_and_beat, queue_of


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    """Give an authority of our own."""
    return Certificates(tmp_path)


@pytest.fixture
def node(tmp_path: Path) -> WorkerNode:
    """Give a worker node."""
    return WorkerNode(tmp_path)


def ended(node: WorkerNode, *words: object) -> tuple[int, str]:
    """Run an agent to its end; return exit code and reason."""
    run = ["run", "--token-file", node.token, "--quiet", "--until-empty", *words]
    with node.started(*run) as agent:
        out, log = agent.communicate(timeout=TIMEOUT_S)
    assert out, log
    return agent.returncode, json.loads(out)["reason"]


@pytest.mark.thorough
@pytest.mark.parametrize("clients_only", [False, True])
def test_agent_with_http_at_a_tls_gateway_names_the_right_address_at_its_start(
    node: WorkerNode, certificates: Certificates, clients_only: bool
) -> None:
    """It does not send the token in the clear."""
    server = certificates.server(clients_only=clients_only)
    with gateway_of(queue_of(1), server) as gateway:
        wrong = gateway.url.replace("https", "http")
        code, reason = ended(node, "--gateway", wrong)
        assert gateway.seen == []
    assert (code, f"TLS is spoken there; is it {gateway.url}?" in reason) == (69, True), reason


def test_address_behind_which_nobody_answers_yet_is_not_taken_for_tls() -> None:
    """A proxy whose gateway is not up closes each connection: that says nothing of schemes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = parsed(f"http://127.0.0.1:{listener.getsockname()[1]}")

        def close_each() -> None:
            with suppress(OSError):
                while True:
                    listener.accept()[0].close()

        threading.Thread(target=close_each, daemon=True).start()
        assert wrong_scheme(address, ConnectionResetError()) is None
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.thorough
def test_agent_with_https_at_a_plain_gateway_names_the_right_address_at_its_start(
    node: WorkerNode,
) -> None:
    """The other way round."""
    with gateway_of(queue_of(1)) as gateway:
        code, reason = ended(node, "--gateway", gateway.url.replace("http", "https"))
    assert (code, f"no TLS is spoken there; is it {gateway.url}?" in reason) == (69, True), reason


@pytest.mark.thorough
def test_one_right_address_is_enough(node: WorkerNode) -> None:
    """Agents that know several gateways work with those that they can speak with."""
    with gateway_of(queue_of(0)) as good, gateway_of(queue_of(0)) as other:
        wrong = other.url.replace("http", "https")
        code, reason = ended(node, "--gateway", wrong, "--gateway", good.url)
    assert (code, reason) == (0, "nothing is left to do"), reason


def test_agent_names_the_address_to_which_a_gateway_redirects() -> None:
    """It does not follow the redirect of a proxy, since that would carry the token along."""
    with gateway_of(queue_of(1)) as gateway:
        place = ("Location", "https://queue.example.org/v1/sessions")
        gateway.substitute = lambda _: Reply(301, headers=(place,), own=False)
        transport = HttpTransport(GatewayList([gateway.url]), TOKEN, Dialer())
        with pytest.raises(TransportFailed, match=r"301 .*it redirects to https://queue\.example"):
            open_and_beat(transport)
