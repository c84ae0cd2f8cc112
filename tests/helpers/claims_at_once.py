"""Agents that claim and report as fast as they can, all at once."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from tests.helpers.postgres import Postgres, value
from tests.helpers.scripted_agent import Claimed, ScriptedAgent, report_of


def turn(agent: ScriptedAgent, held: list[Claimed], want: int) -> list[Claimed]:
    """Report tasks as done and claim others in one exchange."""
    reports = [report_of(task, "done") for task in held]
    return agent.claimed(agent.exchange(reports, want))


def most_at_work(
    agents: Sequence[ScriptedAgent], postgres: Postgres, working: str
) -> tuple[int, int]:
    """Let agents work until nothing is left; return how many tasks are done, and the most at work.

    working: the query that tells how many are.
    """
    start = Barrier(len(agents))

    def work(number: int) -> int:
        done, idle = 0, 0
        start.wait()
        held = agents[number].claim(1 + number % 3)
        while idle < 40:
            done += len(held)
            held = turn(agents[number], held, 1 + number % 3)
            idle = 0 if held else idle + 1
        return done

    with ThreadPoolExecutor(len(agents)) as pool:
        running = [pool.submit(work, number) for number in range(len(agents))]
        most = 0
        while not all(future.done() for future in running):
            most = max(most, value(postgres, working))
        return sum(future.result() for future in running), most
