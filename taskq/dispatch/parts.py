"""A large exchange done in parts, so that others come in between; pure.

Parts change no verdict: each part is an exchange, and of two reports on an attempt the first counts
anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from taskq.dispatch.exchange_request import EncodedReports, ExchangeRequest
from taskq_agent.protocol import Answer

#: Reports in a part, or a little more if several are encoded as one; and the most tasks that a
#: claim gets.
PART_REPORTS: Final = 50
PART_TASKS: Final = 125


class Parts:
    """The parts of an exchange: its reports in order, and its claim with the last ones.

    The claim is for `PART_TASKS` at most: an agent that wants more asks again.
    """

    def __init__(self, exchange: ExchangeRequest) -> None:
        self._left = list(_parts(exchange))[::-1]
        self._answers: list[Answer] = []

    def next(self) -> ExchangeRequest:
        """Take the next part; call `answered` before taking another."""
        return self._left.pop()

    def answered(self, answer: Answer) -> Answer | None:
        """Take in the answer to a part; after the last one return the answer to the exchange."""
        self._answers.append(answer)
        if self._left:
            return None
        answer.acks = tuple(ack for one in self._answers for ack in one.acks)
        answer.timeline = min(one.timeline for one in self._answers)
        return answer


def _parts(exchange: ExchangeRequest) -> Iterator[ExchangeRequest]:
    some: list[EncodedReports] = []
    first = after = 0
    for reports in exchange.reports:
        if after - first >= PART_REPORTS:
            yield exchange._replace(want=0, fences=exchange.fences[first:after], reports=some)
            some, first = [], after
        some.append(reports)
        after += reports.number
    want = min(exchange.want, PART_TASKS)
    yield exchange._replace(want=want, fences=exchange.fences[first:], reports=some)
