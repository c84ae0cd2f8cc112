"""The private parts of uvicorn that the gateway relies on: here they are named, all of them.

A release of uvicorn that changes one fails here first; setup.cfg says up to which one this was run.
"""

from __future__ import annotations

import inspect

import pytest

pytest.importorskip("uvicorn")

from uvicorn import Config, Server
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

PROTOCOL = {
    "attributes": (
        "access_log access_logger app app_state asgi_version client connections cycle "
        "expect_100_continue flow headers logger loop parser pipeline root_path scheme server "
        "server_state tasks transport url"
    ),
    "methods": (
        "connection_lost connection_made data_received on_body on_header on_headers_complete "
        "on_message_begin on_message_complete on_response_complete on_url pause_writing "
        "resume_writing shutdown"
    ),
}
CYCLE = (
    "scope transport flow logger access_logger access_log default_headers message_event "
    "expect_100_continue keep_alive on_response"
)


async def _nothing(scope: object, receive: object, send: object) -> None:
    """Be an application."""


def test_connection_has_the_parts_that_ours_is_made_of() -> None:
    """Ours takes the place of most methods; the others read and write these attributes."""
    config = Config(_nothing, http=HttpToolsProtocol, ws="none", lifespan="off", log_config=None)
    parameters = list(inspect.signature(HttpToolsProtocol.__init__).parameters)
    assert parameters == ["self", "config", "server_state", "app_state", "_loop"]
    state = ServerState()
    state.total_requests += 1
    state.default_headers += []
    source = inspect.getsource(HttpToolsProtocol)
    config.load()
    assert config.http_protocol_class is HttpToolsProtocol
    for name in PROTOCOL["attributes"].split():
        assert f"self.{name}" in source, name
    for name in PROTOCOL["methods"].split():
        assert callable(getattr(HttpToolsProtocol, name)), name


def test_cycle_is_made_of_what_ours_is_made_of() -> None:
    """And says by these attributes how far it is."""
    parameters = list(inspect.signature(RequestResponseCycle.__init__).parameters)
    assert parameters == ["self", *CYCLE.split()]
    cycle = RequestResponseCycle(*[None] * len(CYCLE.split()))  # type: ignore[arg-type]
    for name in ("disconnected", "keep_alive", "more_body", "response_complete"):
        assert hasattr(cycle, name), name
    assert (cycle.more_body, cycle.response_started) == (True, False)
    assert inspect.iscoroutinefunction(RequestResponseCycle.send)
    assert inspect.iscoroutinefunction(RequestResponseCycle.run_asgi)
    used = set(inspect.getsource(RequestResponseCycle).split("transport.")[1:])
    assert {part.partition("(")[0] for part in used} == {"write", "close", "is_closing"}


def test_flow_control_and_server_have_what_is_used() -> None:
    """To pause a client, and to begin and end as we like."""
    for name in ("pause_reading", "resume_reading", "pause_writing", "resume_writing"):
        assert callable(getattr(FlowControl, name)), name
    for name in ("startup", "shutdown", "on_tick", "capture_signals", "serve"):
        assert callable(getattr(Server, name)), name
    source = inspect.getsource(Server.shutdown) + inspect.getsource(Server._wait_tasks_to_complete)  # noqa: SLF001
    assert "in self.servers" in source
    assert "server.close()" in source
    assert "server.wait_closed()" in source
