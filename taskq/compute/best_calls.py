"""The best calls of a run, as the next stage, which may begin while the first goes on."""

from __future__ import annotations

import warnings
from array import array
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from taskq.campaign.campaign import Campaign
from taskq.compute import progress, waiting
from taskq.db.access import Queries
from taskq.model.seed import Seed
from taskq.model.views import Result
from taskq.results.feeder import Feeder
from taskq.results.ranking import Best
from taskq.results.selection import select

if TYPE_CHECKING:
    from taskq.compute.local_agents import LocalAgents


class BestCalls:
    """The value of `Run.best`: iterate over the arguments of the best calls, or `map` them."""

    def __init__(
        self,
        database: Queries,
        campaign: Campaign,
        wanted: Best,
        argument: Callable[[Any], Any],
        *,
        wait: Callable[[float | None], object],
        timeout: float | None,
        agents: list[LocalAgents],
    ) -> None:
        self._database = database
        self._campaign = campaign
        self._wanted = wanted
        self._argument = argument
        self._wait = wait
        self._timeout = timeout
        self._agents = agents

    def __repr__(self) -> str:
        wanted = self._wanted
        number = wanted.n if wanted.percent is None else f"{float(wanted.percent):g} %"
        return f"<BestCalls of {self._campaign.path}: {number} by {wanted.by}>"

    def __iter__(self) -> Iterator[Any]:
        """Wait until all calls have ended; yield the arguments, best first."""
        self._wait(self._timeout)
        chosen = select(self._database, self._campaign, self._wanted, below=False)
        return map(self._argument_of, chosen)

    def feed(self, target: Campaign, put: Callable[[Iterator[Any]], array[int]]) -> array[int]:
        """Seed a campaign with the best so far while the run goes, until it ends.

        put: seeds arguments, and returns the ids of their tasks. Return the tasks of the best of
        all, best first. Warn of tasks that had begun and do not belong to the best.
        """
        source, deadline = self._campaign, waiting.Deadline(self._timeout)
        feeder = Feeder(
            self._database,
            source,
            target,
            self._wanted,
            below=False,
            put=lambda results, _: put(map(self._argument_of, results)),
        )
        with progress.display(source, None) as shown:
            fed = feeder.run(
                pause=waiting.pausing(self._database, source, deadline, shown, self._agents)
            )
        if fed.begun:
            warnings.warn(
                f"{fed.begun:,} tasks of {target.path} had begun and are not among the best of "
                f"{source.path}: {', '.join(fed.some_begun)}",
                stacklevel=4,
            )
        return fed.tasks

    def _argument_of(self, result: Result) -> Any:
        argument = self._argument(result.payload)
        return Seed(argument, result.key) if isinstance(argument, dict) else argument
