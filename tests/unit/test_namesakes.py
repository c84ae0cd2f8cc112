"""Machines of several sites that have one name, of which one fails."""

from __future__ import annotations

from taskq.diagnosis.places import Place, compare_places
from taskq.diagnosis.sample import AttemptGroup
from tests.helpers.attempt_groups import failed, group, verdict


def farm() -> list[AttemptGroup]:
    """Return healthy hosts at two sites."""
    return [group(f"n{n}", attempts=60, site="east" if n % 2 else "west") for n in range(6)]


def node01(sample: list[AttemptGroup]) -> Place:
    """Return the host node01 as it is judged."""
    return next(it for it in compare_places("host", [], sample, []) if it.name == "node01")


def test_name_of_two_machines_is_not_proposed_to_be_banned_if_one_does_well() -> None:
    """A ban would take the healthy one; its agents at the other site are drained."""
    twins = [group("node01", attempts=60, site="west"), failed("node01", 60, site="east")]
    host = node01([*farm(), *twins])
    assert host.is_failing
    assert (host.fails_at, host.does_well_at) == (["east"], ["west"])
    assert host.proposal == "taskq agent drain --host node01 --site east"
    found = verdict([*farm(), *twins], then_done=40)
    assert (found.side, found.places, found.shared) == ("node", ["node01"], ["node01"])
    assert found.proposal is None


def test_name_of_two_machines_that_both_fail_is_banned() -> None:
    """Nobody healthy has it then, as far as is known."""
    ban = "taskq host ban --why exit-1 --until 1d node01"
    twins = [failed("node01", 40, site="west"), failed("node01", 60, site="east")]
    host = node01([*farm(), *twins])
    assert (host.does_well_at, host.proposal) == ((), ban)
    found = verdict([*farm(), *twins], then_done=40)
    assert (found.shared, found.proposal) == ([], ban)


def test_other_failures_than_those_of_the_bad_machine_do_not_hide_the_healthy_one() -> None:
    """Such as where most attempts of a campaign fail everywhere."""
    everywhere = [failed(f"n{n}", 90, "exit-15", "east" if n % 2 else "west") for n in range(6)]
    twins = [group("node01", attempts=30, site="west"), failed("node01", 60, "exit-15", "west")]
    sample = [*farm(), *everywhere, *twins, failed("node01", 80, "exit-127", "east")]
    host = node01(sample)
    assert host.is_failing
    assert host.proposal == "taskq agent drain --host node01 --site east"


def test_host_of_one_site_has_no_namesake() -> None:
    """However much of its work succeeds."""
    host = node01(
        [*farm(), group("node01", attempts=60, site="west"), failed("node01", 60, site="west")]
    )
    assert host.is_failing
    assert host.does_well_at == ()
    assert host.proposal == "taskq host ban --why exit-1 --until 1d node01"
