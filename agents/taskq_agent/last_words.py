"""Words of an agent that gets no further than its start: few people find its log."""

from __future__ import annotations

import logging
import random
import threading
import time

from taskq_agent.backoff import Backoff
from taskq_agent.errors import TransportError, TransportFailed
from taskq_agent.http.transport import HttpTransport
from taskq_agent.loop import AgentSummary
from taskq_agent.protocol import MAX_ERROR_CHARS, Hello, SessionEnd
from taskq_agent.settings import AgentSettings

#: Seconds that the words may take: whatever restarts the agent waits for its end. A gateway that
#: has just been started, as after a power cut, is up by then.
LAST_WORDS_S = 20.0
_FIRST_REPEAT_S, _LAST_REPEAT_S = 0.5, 5.0

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
    pauses = Backoff(_FIRST_REPEAT_S, _LAST_REPEAT_S, random.random)
    with transport:
        while not _is_told(transport, hello, SessionEnd(why, summary.exit_code, 0)):
            time.sleep(pauses.draw())


def _is_told(transport: HttpTransport, hello: Hello, end: SessionEnd) -> bool:
    """Tell the queue; return whether that has an answer, or can have none."""
    try:
        transport.close(transport.open(hello).session, end)
    except TransportError as error:
        log.debug("the queue was to note that, and answers: %s", error)
        return not isinstance(error, TransportFailed)
    return True
