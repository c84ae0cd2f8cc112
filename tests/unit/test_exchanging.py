"""Exchanges, step by step, with a database whose answers a test makes up."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from taskq.dispatch.exchange import MOST_DRAWS, TRIES, Exchanges, Query, run
from taskq.dispatch.exchange_request import ExchangeRequest, exchange_request
from taskq.dispatch.fair_share import GROUP, CampaignOrder, Scope
from taskq_agent.lease_ids import new_lease
from taskq_agent.protocol import DONE, Answer, Report, Request

SERVING = Scope("/c")


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


class Queue:
    """Answers like a queue with some campaigns, and writes down what it was asked."""

    def __init__(self, waiting: dict[int, int], unfinished: int = 0) -> None:
        self.waiting = waiting
        self.unfinished = unfinished
        self.exchange: list[Query] = []

    def __call__(self, query: Query) -> list[dict[str, Any]]:
        """Answer a statement."""
        self.exchange.append(query)
        if query.name == "servable":
            return servable(dict.fromkeys(self.waiting, 1.0))
        if query.name == "left_over":
            return [{"unfinished": self.unfinished, "unservable": 0, "campaigns": [], "more": 0}]
        if query.name == "campaign_by_id":
            row = {"campaign": query.values["campaign"], "revision": 1, "path": "/c/x"}
            row |= {"handler": {}, "params": {}, "time_limit_s": None, "inputs": {}}
            row |= {"checkpoint_bytes": None, "checkpoint_every_s": 600.0, "output_bytes": None}
            row |= {"cores": None, "memory": [], "memory_learnt": False, "gpus": None}
            row |= {"gpu_memory": None, "named_resources": {}, "recipe": None}
            row |= {"require": [], "require_files": []}
            return [row | {"on_disconnect": "continue"}]
        campaign = query.values["campaign"]
        leases = query.values["leases"].strip("{}").split(",")
        tasks = []
        sessions = query.values["sessions"].strip("{}").split(",")
        claims = zip(sessions, leases, strict=True)
        for session, lease in list(claims)[: self.waiting.get(campaign, 0)]:
            self.waiting[campaign] -= 1
            tasks.append([lease, len(self.exchange), 1, "k", {}, int(session)])
        row = {"tasks": tasks, "revision": 1}
        return [dict.fromkeys(("acks", "refused", "spent", "avoided")) | row]

    def named(self, name: str) -> list[Query]:
        """Return the statements of a name."""
        return [query for query in self.exchange if query.name == name]


def claims(*leases: str, scope: Scope = SERVING) -> list[ExchangeRequest]:
    """Return claims for one task each, of sessions numbered from 1."""
    return [
        ExchangeRequest(number, 1, lease, scope, (), ()) for number, lease in enumerate(leases, 1)
    ]


def test_order_of_campaigns_is_drawn_once_a_second() -> None:
    """However many exchanges there are in between."""
    clock, queue = Clock(), Queue({7: 100})
    exchanges = Exchanges(clock)
    for number in range(10):
        run(exchanges.steps(claims(f"l{number}")), queue)
        clock.now += 0.15
    assert len(queue.named("servable")) == 2
    assert len(queue.named("campaign_by_id")) == 1


def test_empty_campaign_is_struck_out_and_the_next_tried() -> None:
    """At most so many in one exchange; then the agent goes away with what is unfinished."""
    queue = Queue(dict.fromkeys(range(1, 9), 0), unfinished=5)
    exchanges = Exchanges(Clock())
    (answer,) = run(exchanges.steps(claims("l")), queue)
    assert isinstance(answer, Answer)
    assert (answer.tasks, answer.unfinished) == ((), 5)
    assert [query.values["campaign"] for query in queue.named("exchange")] == [1, 2, 3][:TRIES]
    run(exchanges.steps(claims("m")), queue)
    assert queue.named("exchange")[TRIES].values["campaign"] == 4


def test_repeated_claim_goes_to_the_campaign_of_the_first() -> None:
    """Only there is its lease known."""
    clock, queue = Clock(), Queue({1: 1, 2: 1})
    exchanges = Exchanges(clock)
    run(exchanges.steps(claims("l")), queue)
    clock.now += 5
    queue.waiting = {2: 1, 1: 0}
    run(exchanges.steps(claims("l")), queue)
    assert [query.values["campaign"] for query in queue.named("exchange")][:2] == [1, 1]


def test_gathered_claims_are_spread_over_campaigns_in_groups() -> None:
    """One statement for each campaign, not one for each claim."""
    queue = Queue({1: 100, 2: 100, 3: 100})
    leases = [f"l{number}" for number in range(2 * GROUP)]
    answers = run(Exchanges(Clock()).steps(claims(*leases)), queue)
    assert all(isinstance(answer, Answer) and len(answer.tasks) == 1 for answer in answers)
    called = [query.values["campaign"] for query in queue.named("exchange")]
    assert len(called) == len(set(called)) <= 2


def test_zero_is_never_older_than_the_question() -> None:
    """Nobody goes home because of a count that was asked for before he asked."""
    clock, queue = Clock(), Queue({}, unfinished=0)
    exchanges = Exchanges(clock)
    early = exchanges.steps(claims("l"))
    late = exchanges.steps(claims("m"))
    query = next(early)
    while query.name != "left_over":
        query = early.send(queue(query))
    answered = queue(query)  # and now seeds arrive
    queue.unfinished = 3
    clock.now += 0.1
    (answer,) = run(late, queue)
    assert isinstance(answer, Answer)
    assert answer.unfinished == 3
    with pytest.raises(StopIteration) as ended:
        early.send(answered)
    assert ended.value.value[0].unfinished == 0
    clock.now += 0.1
    (answer,) = run(exchanges.steps(claims("n")), queue)
    assert isinstance(answer, Answer)
    assert answer.unfinished == 3


def test_rounded_lifetime_is_never_longer_and_never_much_shorter() -> None:
    """An agent gets no task that it cannot finish, and few are kept from it."""
    for lifetime_s in (0.3, 1.0, 59.9, 3_600.0, 1e6):
        rounded = Scope("/c", (), lifetime_s).rounded().lifetime_s
        assert rounded is not None
        assert 0.8 * lifetime_s < rounded <= lifetime_s
    assert Scope("/c", (), -1.0).rounded().lifetime_s == 0
    assert SERVING.rounded() == SERVING


def servable(desires: dict[int, float]) -> list[dict[str, Any]]:
    """Return a draw as the queue tells it."""
    return [
        {"campaign_id": number, "desire": desire, "revision": 1}
        for number, desire in desires.items()
    ]


def test_many_claims_of_one_draw_are_divided_by_what_campaigns_lack() -> None:
    """However many go together, a campaign that has its share gets next to none of them."""
    choice = CampaignOrder()
    choice.draw(servable({4: 90.0, 5: 10.0, 6: 0.01}), 0.0)
    counts = Counter(campaign for _ in range(50) for campaign in choice.spread(32 * GROUP))
    total = counts.total()
    assert 0.85 < counts[4] / total < 0.95
    assert 0.05 < counts[5] / total < 0.15
    assert counts[6] / total < 0.01


def test_claim_that_leaves_a_campaign_out_costs_no_statement_of_its_own() -> None:
    """It shares the draw with those who leave out none, until the campaign has changed."""
    queue = Queue({1: 100, 2: 100})
    exchanges = Exchanges(Clock())
    for number, (without, expected) in enumerate([(((1, 1),), 2), (((1, 0),), 1), ((), 1)]):
        scope = Scope("/c", (), None, without)
        run(exchanges.steps(claims(f"l{number}", scope=scope)), queue)
        assert queue.named("exchange")[-1].values["campaign"] == expected
    both = Scope("/c", (), None, ((1, 1), (2, 1)))
    (answer,) = run(exchanges.steps(claims("l", scope=both)), queue)
    assert isinstance(answer, Answer)
    assert answer.tasks == ()
    assert len(queue.named("servable")) == 1
    assert len(queue.named("exchange")) == 3


def test_next_campaign_of_a_draw_is_none_that_is_left_out() -> None:
    """Leaving some out takes nothing from those who do not."""
    choice = CampaignOrder()
    choice.draw(servable({4: 1.0, 5: 1.0}), 0.0)
    assert {choice.next(((4, 1),)) for _ in range(50)} == {5}
    assert choice.next(((4, 1), (5, 1))) is None
    assert [choice.next() for _ in range(GROUP)] == [4] * GROUP


def test_spread_uses_no_more_campaigns_than_there_are() -> None:
    """And none if none is left."""
    choice = CampaignOrder()
    choice.draw(servable({4: 1.0, 5: 1.0}), 0.0)
    assert choice.spread(1) == [4]
    assert set(choice.spread(100 * GROUP)) == {4, 5}
    choice.strike(4)
    choice.strike(4)
    choice.strike(5)
    assert choice.spread(3) == []


def test_few_choices_are_drawn_before_gathered_claims_get_on() -> None:
    """The others serve on as they are; none is used for long."""
    clock, queue = Clock(), Queue({7: 10_000})
    exchanges = Exchanges(clock)
    kinds = [Scope("/c", (f"tag{number}",)) for number in range(4 * MOST_DRAWS)]
    some = [
        ExchangeRequest(number, 1, f"l{number}", kind, (), ())
        for number, kind in enumerate(kinds, 1)
    ]
    assert all(answer.tasks for answer in map(_answer, run(exchanges.steps(some), queue)))
    drawn = len(queue.named("servable"))
    assert drawn == len(kinds), "one that was never drawn is"
    clock.now += 1.1
    for batch in range(1, 5):
        assert all(answer.tasks for answer in map(_answer, run(exchanges.steps(some), queue)))
        assert len(queue.named("servable")) == drawn + batch * MOST_DRAWS
    clock.now += 10
    run(exchanges.steps(some), queue)
    assert len(queue.named("servable")) == drawn + 2 * len(kinds)


def test_lifetimes_that_a_client_makes_up_are_few_choices() -> None:
    """However long or short they are."""
    lifetimes = [2.0 ** (exponent / 7) for exponent in range(-7_000, 7_000)]
    assert len({Scope("/c", (), lifetime_s).rounded() for lifetime_s in lifetimes}) < 130


def _answer(answer: object) -> Answer:
    assert isinstance(answer, Answer)
    return answer


def python_calls(call: Callable[[], object]) -> int:
    """Return how many functions in Python a call goes through."""
    called: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(called)


def test_request_of_an_agent_is_encoded_without_a_call_for_each_member() -> None:
    """An agent with a connection of its own does so for each task."""
    lease = new_lease()
    report = Report(1, 2, lease, DONE, {"score": -7.5}, phases={"wait_s": 0.1, "run_s": 1.5})
    request = Request(7, (report,), 1, lease, 3_000.0, ahead=True)
    exchange_request(request, SERVING)
    assert python_calls(lambda: exchange_request(request, SERVING)) <= 16
    many = Request(7, (report,) * 50, 50, lease, 3_000.0, ahead=True)
    assert python_calls(lambda: exchange_request(many, SERVING)) <= 16 + 3 * 50
