"""A large exchange that is done in parts, so that others come in between; pure.

That changes no verdict: each part is an exchange, and of two reports on an attempt the first counts
anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from taskq.dispatch.exchange_request import EncodedReports, ExchangeRequest
from taskq_agent.protocol import Answer

#: Reports in a part, or a little more if several are encoded as one; and tasks that a claim gets at
#: most.
PART_REPORTS: Final = 50
PART_TASKS: Final = 125


class Parts:
    """The parts of an exchange: its reports in order, the last ones with its claim.

    The claim is for `PART_TASKS` at most: an agent that wants more asks again.
    """

    def __init__(self, exchange: ExchangeRequest) -> None:
        self._left = list(_parts(exchange))[::-1]
        self._answers: list[Answer] = []

    def next(self) -> ExchangeRequest:
        """Take the next part; call `answered` before taking another."""
        return self._left.pop()

    def answered(self, answer: Answer) -> Answer | None:
        """Take in the answer to the last part; return that to the exchange if it was the last."""
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
