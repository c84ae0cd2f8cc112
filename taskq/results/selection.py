"""The best results of finished campaigns, chosen once at their end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice

from taskq.db.access import Queries
from taskq.files.large_results import Fetching
from taskq.model.errors import Conflict, UsageError
from taskq.model.seed import NamedCampaign, is_within
from taskq.model.views import Result, Status
from taskq.model.words import counted
from taskq.results.group_ranking import GroupRanking
from taskq.results.ranking import Best, Ranking, fetched


class Selection:
    """Iterates over the chosen results, best first, once.

    ranked: number of results, or groups, to choose from; left_out: results without the value or the
    group. Both are known when the first result comes.
    """

    def __init__(self, database: Queries, nodes: Sequence[Status], wanted: Best) -> None:
        """Choose among campaigns, given by their own counts."""
        self.ranked = 0
        self.left_out = 0
        self._database = database
        self._campaigns = [node for node in nodes if node.done]
        self._done = sum(campaign.done for campaign in self._campaigns)
        self._wanted = wanted
        self._fetching = Fetching(database)

    def __iter__(self) -> Iterator[Result]:
        if not self._done:
            return iter(())
        return self._of_groups() if self._wanted.group is not None else self._of_results()

    def _of_results(self) -> Iterator[Result]:
        wanted = self._wanted
        most = wanted.number(self._done)
        ranking = Ranking(
            self._database,
            self._fetching,
            most,
            wanted.by,
            ascending=wanted.lowest,
            recipe=wanted.recipe,
        )
        for campaign in self._campaigns:
            ranking.look(campaign)
        best = ranking.best()
        self.ranked, self.left_out = ranking.ranked, ranking.left_out
        for _, result in islice(best, wanted.number(self.ranked)):
            yield result

    def _of_groups(self) -> Iterator[Result]:
        wanted = self._wanted
        with GroupRanking(self._database, self._fetching, wanted) as ranking:
            for campaign in self._campaigns:
                ranking.look(campaign)
            places = ranking.best()
            first = next(places, None)
            self.ranked, self.left_out = ranking.groups, ranking.left_out
            if first is None:
                raise UsageError(
                    f"none of {counted(self.left_out, 'result')} has a number in {wanted.by!r} and "
                    f"a value in {wanted.group!r}"
                )
            chosen = chain([first], places)
            for _, result in fetched(self._database, self._fetching, self._campaigns, chosen):
                yield result


def select(
    database: Queries,
    campaign: NamedCampaign,
    wanted: Best,
    *,
    below: bool = True,
    but: str | None = None,
    so_far: bool = False,
) -> Selection:
    """Choose the best results of a campaign and those below it.

    but: see `stage`. so_far: choose from what is done now; otherwise raise `Conflict` if a task is
    unfinished, since the best are not known yet.
    """
    nodes = stage(database, campaign, below=below, but=but)
    unfinished = sum(node.unfinished for node in nodes)
    if unfinished and not so_far:
        raise Conflict(
            f"{campaign.path} has {counted(unfinished, 'unfinished task')}, so its best results "
            "are not known yet: wait, or take the best so far"
        )
    return Selection(database, nodes, wanted)


def stage(
    database: Queries, campaign: NamedCampaign, *, below: bool, but: str | None = None
) -> list[Status]:
    """Return the own counts of the campaigns of a stage.

    but: leave out this campaign, and those below it: the next stage.
    """
    rows = database.rows("counts", path=campaign.path, depth=None)
    nodes = [Status(**row) for row in (rows if below else rows[:1])]
    return [node for node in nodes if but is None or not is_within(node.path, but)]
