"""Blobs that agents fetch and store over HTTP."""

from __future__ import annotations

import pytest

from taskq_agent.errors import Refused, TransportFailed
from tests.helpers.memory_gateway import HttpGateway, Reply, error
from tests.integration.agent.http.support import BLOB, DIGEST, HELLO, agent_of


def test_blob_goes_there_and_back(gateway: HttpGateway) -> None:
    with agent_of(gateway) as transport:
        transport.open(HELLO)
        transport.write_blob(DIGEST, BLOB)
        assert b"".join(transport.read_blob(DIGEST, 0)) == BLOB
        assert b"".join(transport.read_blob(DIGEST, 1_000_000)) == BLOB[1_000_000:]
    assert gateway.connections() == 1


def test_blob_that_breaks_off_is_a_failure(gateway: HttpGateway) -> None:
    """What had come is there, and the rest can be asked for."""
    cut = Reply(200, BLOB[:300_000], (("Content-Length", str(len(BLOB))),), hang_up=True)
    with agent_of(gateway) as transport:
        transport.open(HELLO)
        transport.write_blob(DIGEST, BLOB)
        gateway.substitute = lambda _: cut
        got: list[bytes] = []
        with pytest.raises(TransportFailed):
            got.extend(transport.read_blob(DIGEST, 0))
        assert sum(map(len, got)) == 300_000
        gateway.substitute = lambda _: None
        got.extend(transport.read_blob(DIGEST, 300_000))
    assert b"".join(got) == BLOB


def test_server_that_knows_no_ranges_will_do(gateway: HttpGateway) -> None:
    with agent_of(gateway) as transport:
        transport.open(HELLO)
        gateway.substitute = lambda _: Reply(200, BLOB)
        assert b"".join(transport.read_blob(DIGEST, 500_000)) == BLOB[500_000:]


def test_blobs_that_cannot_be_had_or_stored_are_refused(gateway: HttpGateway) -> None:
    with agent_of(gateway) as transport:
        transport.open(HELLO)
        with pytest.raises(Refused):
            list(transport.read_blob("0" * 64, 0))
        with pytest.raises(Refused):
            transport.write_blob("0" * 64, BLOB)


def test_blobs_wait_for_the_next_session(gateway: HttpGateway) -> None:
    """Whoever transfers them does not open sessions: it tries again later."""
    with agent_of(gateway) as transport:
        with pytest.raises(TransportFailed, match="no session"):
            transport.write_blob(DIGEST, BLOB)
        transport.open(HELLO)
        gateway.substitute = lambda _: error(410, "session_lost")
        with pytest.raises(TransportFailed):
            transport.write_blob(DIGEST, BLOB)
        with pytest.raises(TransportFailed):
            list(transport.read_blob(DIGEST, 0))
