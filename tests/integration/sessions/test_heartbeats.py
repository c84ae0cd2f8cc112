"""Gathered beats: many sessions, one statement, and each gets what its own beat would have got."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from taskq import Campaign
from taskq.db.connections import Database
from taskq.dispatch.direct import DirectTransport
from taskq.dispatch.heartbeats import HeartbeatBatcher
from taskq.model.errors import UsageError
from taskq_agent.errors import Refused, SessionLost, TransportFailed
from taskq_agent.held_claims import HeldClaim
from taskq_agent.lease_ids import new_lease
from taskq_agent.protocol import Heartbeat, HeartbeatAnswer, Held, Trouble
from tests.helpers.postgres import Postgres, last_beats, statuses, value
from tests.helpers.scripted_agent import Claimed, ScriptedAgent
from tests.helpers.variants import rest_thorough

pytestmark = pytest.mark.usefixtures("true_counts")

GATHER_S = 0.05


def held(*tasks: Claimed) -> tuple[Held, ...]:
    """Name tasks in an agent's hands."""
    return tuple(Held(task.campaign, task.task, task.lease) for task in tasks)


def beat_of(agent: ScriptedAgent, *tasks: Claimed, **words: Any) -> Heartbeat:
    """Return the beat of an agent that knows of all its leases and holds these tasks."""
    return Heartbeat(agent.session, held(*tasks), **{"drawn": agent.drawn or "", **words})


def answered(
    database: Database, said: Sequence[Heartbeat]
) -> list[HeartbeatAnswer | BaseException]:
    """Send beats at the same time; return the answers."""

    async def send() -> list[HeartbeatAnswer | BaseException]:
        async with HeartbeatBatcher(database, GATHER_S) as heartbeats:
            return await asyncio.gather(*map(heartbeats.heartbeat, said), return_exceptions=True)

    return asyncio.run(send())


def statements(database: Database, said: list[Heartbeat], *, most: int = 100) -> list[int]:
    """Send beats at the same time; return how many were in each statement."""
    sizes: list[int] = []

    async def send() -> None:
        async with HeartbeatBatcher(database, GATHER_S, most=most) as heartbeats:
            connection = heartbeats._connection  # noqa: SLF001 - to see what goes over it
            rows = connection.rows

            async def counted(name: str, /, **values: Any) -> list[dict[str, Any]]:
                if name == "beat":
                    sizes.append(len(json.loads(values["beats"])))
                return await rows(name, **values)

            connection.rows = counted  # type: ignore[method-assign]  # passes everything on
            await asyncio.gather(*map(heartbeats.heartbeat, said))

    asyncio.run(send())
    return sizes


def test_heartbeats_that_arrive_together_are_one_statement(
    agents: list[ScriptedAgent], database: Database, postgres: Postgres
) -> None:
    """It keeps each of the sessions alive."""
    before = last_beats(postgres)
    assert statements(database, [beat_of(agent) for agent in agents]) == [4]
    after = last_beats(postgres)
    assert all(after[agent.session] > before[agent.session] for agent in agents)


def test_each_of_a_batch_is_answered_for_itself(
    agents: list[ScriptedAgent], campaign: Campaign, database: Database, postgres: Postgres
) -> None:
    """Void leases, an end, an order to drain; what is not named goes back, what is named stays."""
    quiet, stopped, ended, lossy = agents
    kept, cancelled = quiet.claim(1), stopped.claim(1)
    ended.claim(1)
    named, lost = lossy.claim(2)
    campaign.cancel([cancelled[0].key])
    ended.leave()
    postgres.execute(
        "update taskq.session set drain = true where session_id = %s", [stopped.session]
    )
    answers = answered(
        database,
        [
            beat_of(quiet, *kept),
            beat_of(stopped, *cancelled),
            beat_of(ended),
            beat_of(lossy, named),
        ],
    )
    first, second, third, fourth = answers
    assert first == fourth == HeartbeatAnswer()
    assert isinstance(second, HeartbeatAnswer)
    assert (second.stop, second.orders.drain) == (held(*cancelled), True)
    assert isinstance(third, SessionLost)
    assert statuses(postgres)[lost.key] == "waiting"
    assert value(postgres, "select attempt from taskq.state where task_id = %s", lost.task) == 0
    assert [
        agent.done(task) for agent, task in ((quiet, kept[0]), (lossy, named), (lossy, lost))
    ] == [
        "accepted",
        "accepted",
        "superseded",
    ]


def test_nobody_is_asked_about_the_claims_of_others(
    agents: list[ScriptedAgent], database: Database
) -> None:
    """What one names, as held or pending, does not speak for another, and neither its lease."""
    careless, thief, patient, hasty = agents
    mine, pending = careless.claim(1), patient.claim(1)
    old = hasty.draw_lease()
    younger = hasty.claim(1)
    answers = answered(
        database,
        [
            beat_of(careless),
            beat_of(thief, *mine, pending=(mine[0].lease,), drawn=new_lease()),
            beat_of(patient, pending=(pending[0].lease,)),
            beat_of(hasty, drawn=old),
        ],
    )
    assert [answer.stop for answer in answers if isinstance(answer, HeartbeatAnswer)] == [
        (),
        held(*mine),
        (),
        (),
    ]
    assert careless.done(mine[0]) == "superseded"
    assert patient.done(pending[0]) == "accepted"
    assert hasty.done(younger[0]) == "accepted"


@pytest.mark.parametrize(
    "words",
    rest_thorough(
        [
            {"session": -1},
            {"session": 2**63},
            {"held": (Held(1, 2, "no lease"),)},
            {"held": (Held(1, True, new_lease()),)},
            {"held": (Held(1, 1, new_lease()),) * 10_001},
            {"pending": ("",)},
            {"drawn": "yesterday"},
        ],
        3,
    ),
)
def test_bad_heartbeat_is_refused_alone(
    words: dict[str, Any], agents: list[ScriptedAgent], database: Database
) -> None:
    """Those that came with it are answered."""
    bad = Heartbeat(**{"session": agents[0].session, **words})
    first, second, third = answered(database, [beat_of(agents[1]), bad, beat_of(agents[2])])
    assert isinstance(second, Refused)
    assert first == third == HeartbeatAnswer()


@pytest.mark.parametrize(
    "members",
    rest_thorough(
        [
            {"trouble": Trouble(try_in_s=math.nan)},
            {"session": 2**63},
            {"held": (Held(1, 2, "no lease"),)},
            {"held": (Held(1, True, new_lease()),)},
            {"claims": (HeldClaim(1, "no lease", 1),)},
            {"drawn": "yesterday"},
            {"drawn": "\0"},
        ],
        2,
    ),
)
def test_bad_heartbeat_of_a_direct_agent_is_refused(
    members: dict[str, Any], agents: list[ScriptedAgent], database: Database
) -> None:
    """By the server: it goes alone, so nobody checks it before; its connection serves the next."""
    bad = Heartbeat(**{"session": agents[0].session, **members})
    transport = DirectTransport(database)
    with pytest.raises(Refused):
        transport.heartbeat(bad)
    assert transport.heartbeat(beat_of(agents[0])).stop == ()
    transport.close(agents[0].session)


async def test_heartbeat_that_the_database_alone_finds_bad_is_refused_alone(
    agents: list[ScriptedAgent], database: Database
) -> None:
    """Should this side have overlooked something, it harms nobody else."""
    async with HeartbeatBatcher(database, GATHER_S) as heartbeats:
        said = [asyncio.ensure_future(heartbeats.heartbeat(beat_of(agent))) for agent in agents]
        await asyncio.sleep(0)
        heartbeats._waiting[agents[2].session].text = '{"session": null}'  # noqa: SLF001 - overlooked
        answers = await asyncio.gather(*said, return_exceptions=True)
        refused = answers.pop(2)
        assert isinstance(refused, Refused)
        assert isinstance(refused.__cause__, UsageError)
        assert answers == [HeartbeatAnswer()] * 3


def test_newest_of_two_heartbeats_of_a_session_counts(
    agents: list[ScriptedAgent], database: Database, postgres: Postgres
) -> None:
    """Both callers get its answer."""
    agent = agents[0]
    first = agent.claim(1)
    older = beat_of(agent, *first)
    second = agent.claim(1)
    assert answered(database, [older, beat_of(agent, *second)]) == [HeartbeatAnswer()] * 2
    now = statuses(postgres)
    assert (now[first[0].key], now[second[0].key]) == ("waiting", "working")


async def test_heartbeat_whose_client_has_gone_is_not_sent(
    agents: list[ScriptedAgent], database: Database, postgres: Postgres
) -> None:
    """Its client has gone."""
    gone, here = agents[:2]
    before = last_beats(postgres)
    async with HeartbeatBatcher(database, GATHER_S) as heartbeats:
        given_up = asyncio.ensure_future(heartbeats.heartbeat(beat_of(gone)))
        await asyncio.sleep(0)
        given_up.cancel()
        await heartbeats.heartbeat(beat_of(here))
    after = last_beats(postgres)
    assert after[gone.session] == before[gone.session]
    assert after[here.session] > before[here.session]


@pytest.mark.parametrize(("bounds", "sizes"), [((3, 10_000), [3, 1]), ((9, 1), [1] * 4)])
def test_no_statement_grows_beyond_its_bounds(
    bounds: tuple[int, int],
    sizes: list[int],
    agents: list[ScriptedAgent],
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is too much for one, in number or length, goes with the next."""
    most, chars = bounds
    monkeypatch.setattr("taskq.dispatch.heartbeats.MOST_CHARS", chars)
    assert statements(database, [beat_of(agent) for agent in agents], most=most) == sizes


def test_heartbeat_that_names_much_goes_after_all_others(
    agents: list[ScriptedAgent], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself, so that what a client makes up costs the others nothing; all are answered."""
    monkeypatch.setattr("taskq.dispatch.heartbeats.LARGE_NAMED", 20)
    made_up = tuple(Held(10**12 + n, n, new_lease()) for n in range(21))
    said = [Heartbeat(agents[0].session, made_up), *map(beat_of, agents[1:])]
    assert statements(database, said) == [3, 1]
    answers = answered(database, said)
    assert isinstance(answers[0], HeartbeatAnswer)
    assert len(answers[0].stop) == 21


def test_heartbeat_that_names_much_has_its_turn_while_others_come(
    agents: list[ScriptedAgent], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After one of its kind it has its turn in time, not in the next pause; the end sends it."""
    monkeypatch.setattr("taskq.dispatch.heartbeats.LARGE_NAMED", 20)
    monkeypatch.setattr("taskq.dispatch.heartbeats.REST_FACTOR", 1e9)
    made_up = tuple(Held(10**12 + n, n, new_lease()) for n in range(21))
    large = [Heartbeat(agent.session, made_up) for agent in agents[:2]]
    waiting: list[asyncio.Task[HeartbeatAnswer]] = []

    async def scene(heartbeats: HeartbeatBatcher) -> None:
        await heartbeats.heartbeat(large[0])
        waiting.append(asyncio.create_task(heartbeats.heartbeat(large[1])))
        for _ in range(3):
            await heartbeats.heartbeat(beat_of(agents[2]))
        assert not waiting[0].done()

    async def run() -> HeartbeatAnswer:
        async with HeartbeatBatcher(database, GATHER_S) as heartbeats:
            await scene(heartbeats)
        return await waiting[0]

    assert len(asyncio.run(asyncio.wait_for(run(), 30)).stop) == 21


async def test_many_that_name_much_keep_nothing_busy_while_they_wait(
    agents: list[ScriptedAgent], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as a statement may have are looked at once in a while, not at every turn."""
    monkeypatch.setattr("taskq.dispatch.heartbeats.LARGE_NAMED", 20)
    monkeypatch.setattr("taskq.dispatch.heartbeats.REST_FACTOR", 1e9)
    made_up = tuple(Held(10**12 + n, n, new_lease()) for n in range(21))
    looked: list[int] = []
    take = HeartbeatBatcher._next_batch  # noqa: SLF001 - to see how often it is asked

    def counted(heartbeats: HeartbeatBatcher) -> list[Any]:
        looked.append(1)
        return take(heartbeats)

    monkeypatch.setattr(HeartbeatBatcher, "_next_batch", counted)
    async with HeartbeatBatcher(database, GATHER_S, most=2) as heartbeats:
        large = [Heartbeat(agent.session, made_up) for agent in agents[:3]]
        waiting = [asyncio.create_task(heartbeats.heartbeat(heartbeat)) for heartbeat in large]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(0.5)
        assert sum(task.done() for task in waiting) == 1
    assert len(looked) < 100


async def test_heartbeats_fail_together_when_the_database_does_not_answer(
    agents: list[ScriptedAgent], database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next heartbeat finds the database again."""
    async with HeartbeatBatcher(database, GATHER_S) as heartbeats:
        with psycopg.connect(dsn) as other, monkeypatch.context() as soon:
            soon.setattr("taskq.dispatch.heartbeats.ANSWER_S", 0.5)
            other.execute("lock table taskq.session in access exclusive mode")
            answers = await asyncio.gather(
                *(heartbeats.heartbeat(beat_of(agent)) for agent in agents), return_exceptions=True
            )
            assert {type(answer) for answer in answers} == {TransportFailed}
            other.rollback()
        assert await heartbeats.heartbeat(beat_of(agents[0])) == HeartbeatAnswer()


async def test_lost_connection_is_made_anew_unnoticed(
    agents: list[ScriptedAgent], database: Database, postgres: Postgres
) -> None:
    """A beat may be repeated, so nobody need hear that its connection was cut."""
    async with HeartbeatBatcher(database, GATHER_S) as heartbeats:
        await heartbeats.heartbeat(beat_of(agents[0]))
        postgres.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        answers = await asyncio.gather(*(heartbeats.heartbeat(beat_of(agent)) for agent in agents))
        assert answers == [HeartbeatAnswer()] * len(agents)


async def test_closing_sends_what_waits(
    agents: list[ScriptedAgent], database: Database, postgres: Postgres
) -> None:
    """At once, and answers it."""
    before = last_beats(postgres)
    heartbeats = HeartbeatBatcher(database, 3_600)
    said = [asyncio.ensure_future(heartbeats.heartbeat(beat_of(agent))) for agent in agents]
    await asyncio.sleep(0)
    await heartbeats.close()
    assert await asyncio.gather(*said) == [HeartbeatAnswer()] * 4
    after = last_beats(postgres)
    assert all(after[agent.session] > before[agent.session] for agent in agents)


def test_heartbeat_does_not_hand_on_tasks_of_ended_sessions(
    agents: list[ScriptedAgent], database: Database, postgres: Postgres
) -> None:
    """Upkeep knows whether they were lost or released."""
    agent = agents[0]
    (task,) = agent.claim(1)
    postgres.execute("update taskq.session set ended_at = now(), expired = true")
    (answer,) = answered(database, [beat_of(agent)])
    assert isinstance(answer, SessionLost)
    assert statuses(postgres)[task.key] == "working"
