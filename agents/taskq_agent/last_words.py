"""Words of an agent that gets no further than its start: few people find its log."""

from __future__ import annotations

import logging
import threading

from taskq_agent.errors import TransportError
from taskq_agent.http.transport import HttpTransport
from taskq_agent.loop import AgentSummary
from taskq_agent.protocol import MAX_ERROR_CHARS, SessionEnd
from taskq_agent.settings import AgentSettings

#: Seconds that the words may take: whatever restarts the agent waits for its end.
LAST_WORDS_S = 5.0

log = logging.getLogger(__name__)


def last_words(transport: HttpTransport, agent: AgentSettings, summary: AgentSummary) -> None:
    """Send the queue why an agent has not begun, if that can be done soon.

    A gateway that does not know such words gives a session, which then ends with them.
    """
    thread = threading.Thread(target=_send, args=(transport, agent, summary), daemon=True)
    thread.start()
    thread.join(LAST_WORDS_S)


def _send(transport: HttpTransport, agent: AgentSettings, summary: AgentSummary) -> None:
    why = summary.reason[:MAX_ERROR_CHARS]
    hello = agent.draw_hello(unfit=why)
    try:
        with transport:
            session = transport.open(hello).session
            transport.close(session, SessionEnd(why, summary.exit_code, 0))
    except TransportError as error:
        log.debug("the queue has been asked to note that: %s", error)
