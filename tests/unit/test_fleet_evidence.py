"""Statistics of hosts, sites and classes of error, without a database."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from taskq.diagnosis.bans import Ban
from taskq.diagnosis.blame import failing_why
from taskq.diagnosis.evidence import RunTimeSums, compare, share, slowness
from taskq.diagnosis.judging import NOTABLE, Judgement
from taskq.diagnosis.places import Place, compare_places
from taskq.diagnosis.sample import AttemptGroup
from tests.helpers.attempt_groups import failed, group, ran, verdict


def test_interval_covers_the_true_share_nearly_always() -> None:
    """However small the number is; seen of 2,000 samples."""
    draw = random.Random(7)
    for true, attempts in ((0.02, 50), (0.5, 8), (0.9, 30), (0.999, 200)):
        covered = 0
        for _ in range(2_000):
            part = sum(draw.random() < true for _ in range(attempts))
            found = share(part, attempts)
            assert 0 <= found.low <= found.share <= found.high <= 1
            covered += found.low <= true <= found.high
        assert covered > 1_990, (true, attempts)


@pytest.mark.parametrize(
    ("part", "attempts"), [(0, 50), (3, 3), (1, 10), (50, 100), (3, 900), (199, 200)]
)
def test_interval_leaves_out_what_has_a_tail_of_half_a_thousandth(part: int, attempts: int) -> None:
    """By the tails of the binomial distribution, added up one by one."""
    found = share(part, attempts)

    def tail(true: float, ends: Iterable[int]) -> float:
        return sum(math.comb(attempts, k) * true**k * (1 - true) ** (attempts - k) for k in ends)

    if part:
        assert tail(found.low, range(part, attempts + 1)) == pytest.approx(0.0005, rel=1e-3)
    if part < attempts:
        assert tail(found.high, range(part + 1)) == pytest.approx(0.0005, rel=1e-3)


def test_failure_that_came_after_the_sample_is_no_error() -> None:
    """Over a gateway, each reading has its own moment."""
    assert share(7, 5) == share(5, 5)


def test_nothing_seen_says_nothing() -> None:
    """Neither for nor against."""
    assert (share(0, 0).low, share(0, 0).high) == (0, 1)
    assert compare({"/c": (3, 3)}, {}) is None
    assert compare({}, {"/c": (3, 3)}) is None
    assert slowness({"/c": ran([1, 1])}, {"/c": ran([1, 2, 3])}) is None


@pytest.mark.parametrize(
    ("here", "elsewhere", "worse"),
    [
        ((3, 3), (0, 200), True),
        ((1, 1), (0, 1_000), False),
        ((2, 2), (2, 8), False),
        ((20, 20), (200, 200), False),
        ((6, 100), (2, 2_000), True),
        ((3, 100), (200, 10_000), False),
        ((100, 200), (100, 250), False),
    ],
)
def test_place_is_worse_only_if_chance_does_not_explain_it(
    here: tuple[int, int], elsewhere: tuple[int, int], *, worse: bool
) -> None:
    """A few failures where others have none count more than many among many."""
    found = compare({"/c": here}, {"/c": elsewhere})
    assert found is not None
    assert found.is_worse == worse


def test_campaigns_are_not_mixed_up() -> None:
    """Who works for a bad campaign is as good as one that works for a good one."""
    here, elsewhere = {"/bad": (90, 100)}, {"/bad": (900, 1_000), "/good": (0, 9_000)}
    found = compare(here, elsewhere)
    assert found is not None
    assert not found.is_worse
    assert found.elsewhere.share == pytest.approx(0.9)
    found = compare({"/good": (90, 100)}, elsewhere)
    assert found is not None
    assert found.is_worse


def test_slow_place_is_found_with_its_factor() -> None:
    """In several campaigns whose tasks take different times."""
    draw = random.Random(3)

    def drawn(mean: float, number: int) -> RunTimeSums:
        return ran(draw.lognormvariate(math.log(mean), 0.4) for _ in range(number))

    here = {"/short": drawn(5, 40), "/long": drawn(500, 20)}
    elsewhere = {"/short": drawn(1, 900), "/long": drawn(100, 400)}
    found = slowness(here, elsewhere)
    assert found is not None
    assert found.low < 5 < found.high
    assert found.is_slower
    same = slowness({"/short": drawn(1, 40)}, elsewhere)
    assert same is not None
    assert not (same.is_slower and same.times >= NOTABLE)


def test_few_bad_places_do_not_make_others_look_well() -> None:
    """They are no measure: one that fails a little next to them is found too."""
    hosts = {f"h{n}": [group(f"h{n}", attempts=100)] for n in range(8)}
    hosts["hole"] = [failed("hole", 5_000)]
    hosts["poor"] = [group("poor", attempts=80), failed("poor", 20)]
    judged = Judgement(hosts)
    assert judged.failing == {"hole", "poor"}
    found = judged.comparison("h0")
    assert found is not None
    assert found.elsewhere.share == 0


def test_site_is_judged_without_its_few_bad_hosts() -> None:
    """They are named; a site whose hosts all fail is at fault itself."""
    sample = [
        *(group(f"a{n}", attempts=100, site="alpha") for n in range(5)),
        failed("hole", 3_000, site="alpha"),
        *(group(f"b{n}", attempts=100, site="beta") for n in range(5)),
        *(failed(f"g{n}", 40, site="gamma") for n in range(3)),
    ]
    sites = {place.name: place for place in compare_places("site", [], sample, [])}
    assert sites["alpha"].apart == ["hole"]
    assert not sites["alpha"].verdict
    assert "100 % of 120 attempts fail here" in sites["gamma"].verdict
    assert sites["gamma"].proposal is not None
    assert sites["gamma"].proposal.startswith("taskq site ban --why ")
    assert sites["gamma"].proposal.endswith(" --until 1d gamma")
    hosts = compare_places("host", [], sample, [])
    assert [host.name for host in hosts if host.verdict] == ["hole", "g0", "g1", "g2"]


def test_rate_that_may_be_chance_has_a_word_of_its_own() -> None:
    """Neither a verdict nor silence, where it looks worse than elsewhere."""
    groups = [group(f"h{n}", attempts=95) for n in range(4)]
    groups += [failed(f"h{n}", 5) for n in range(4)]
    groups += [group("g", attempts=28, site="gamma"), failed("g", 3, site="gamma")]
    by_name = {place.name: place for place in compare_places("site", [], groups, [])}
    assert by_name["gamma"].verdict == ""
    assert by_name["gamma"].remark.startswith(
        "9.7 % of 31 attempts fail here, which is not clearly more than elsewhere: "
    )
    assert by_name["s"].remark == ""


def test_failing_places_come_before_slow_ones_and_bans_last() -> None:
    """However many slots they have."""
    groups = [group(f"h{n}", times=ran([0.9, 1, 1.1] * 30)) for n in range(4)]
    groups = [replace(attempts, attempts=90) for attempts in groups]
    slow = replace(group("slow", times=ran([4.5, 5, 5.5] * 30)), attempts=90)
    groups += [slow, failed("hole", 9), failed("gone", 9)]
    ban = Ban("host", "gone", "sold", "me", datetime.now(timezone.utc), None)
    names = [place.name for place in compare_places("host", [], groups, [ban])]
    assert (names[:2], names[-1]) == (["hole", "slow"], "gone")


def test_loss_by_a_ban_is_the_share_of_the_work() -> None:
    """Of the successes; the rest has to do that as well."""
    groups = [group("h", attempts=92, site="s"), group("g", attempts=8, site="gamma")]
    by_name = {place.name: place for place in compare_places("site", [], groups, [])}
    loss = "it does 8.0 % of the work; without it the rest takes 1.09 times as long"
    assert by_name["gamma"].loss == loss
    (alone,) = compare_places("site", [], groups[:1], [])
    assert alone.loss == ""


def test_reason_of_a_ban_is_short_and_can_be_shown() -> None:
    """It has passed through a node."""
    assert failing_why("exit-1", "libcuda.so.1: no\x1b[31m\tfile") == (
        "exit-1: libcuda.so.1: no [31m file"
    )
    assert len(failing_why("exit-1", "x" * 300)) == 80
    assert failing_why("", "") == "attempts fail"


def test_reason_of_a_ban_is_the_failure_and_no_share() -> None:
    """The reason names what to repair."""
    groups = [group(f"h{n}", attempts=50) for n in range(4)]
    groups += [failed("bad", 20, "exit-9")]
    groups += [replace(group("dead", "lost", 4), session_id=n) for n in range(5)]
    bans = {place.name: place.proposal for place in compare_places("host", [], groups, [])}
    assert bans["bad"] == "taskq host ban --why exit-9 --until 1d bad"
    assert bans["dead"] == "taskq host ban --why 'agents are lost here' --until 1d dead"


def test_one_bad_host_of_two_is_no_bad_site() -> None:
    """The ban of a site for one host would cost the other."""
    groups = [group(f"h{n}", attempts=90, site=f"s{n // 2}") for n in range(8)]
    groups += [failed("h7", 90, site="s3")]
    assert not any(place.proposal for place in compare_places("site", [], groups, []))
    hosts = compare_places("host", [], groups, [])
    assert [host.name for host in hosts if host.proposal] == ["h7"]
    groups += [failed("h6", 60, site="s3")]
    sites = compare_places("site", [], groups, [])
    assert [site.name for site in sites if site.proposal] == ["s3"], "now both fail"


def _sites(*groups: AttemptGroup) -> dict[str, Place]:
    """Compare the sites, with others that do well in both campaigns."""
    well = [
        replace(group(f"h{n}", site=f"s{n % 3}", campaign=path, times=ran([0.9, 1, 1.1] * 30)))
        for n in range(6)
        for path in ("/c", "/d")
    ]
    well = [replace(attempts, attempts=90) for attempts in well]
    return {place.name: place for place in compare_places("site", [], [*well, *groups], [])}


@pytest.mark.parametrize(
    "other",
    [
        [],
        [group("g2", "lost", 4, site="gamma", campaign="/d")],
        [failed("g2", 1, site="gamma")],
        [failed("g2", 12, "exit-2", site="gamma")],
    ],
    ids=["none", "lost", "one failure", "another fault"],
)
def test_one_host_is_no_evidence_about_its_site(other: list[AttemptGroup]) -> None:
    """Nor with another that was lost, failed by chance, or fails for another reason."""
    lone = failed("g1", 12, site="gamma")
    slow = replace(group("g1", site="gamma", times=ran([4.5, 5, 5.5] * 20)), attempts=60)
    assert not _sites(lone, *other)["gamma"].verdict
    assert not _sites(slow, *other)["gamma"].is_slow
    second = replace(slow, host="g2")
    assert _sites(lone, failed("g2", 12, site="gamma"))["gamma"].is_failing
    assert _sites(slow, second)["gamma"].is_slow
    judged = verdict([*(group(f"h{n}", attempts=90, site=f"s{n % 3}") for n in range(6)), lone])
    assert (judged.side, judged.places) == ("node", ["g1"])


def test_loss_of_an_agent_is_one_event() -> None:
    """However many attempts it had, and in however many campaigns.

    Agents that are lost again and again do accuse their host.
    """
    paths = [f"/{letter}" for letter in "cdefgh"]
    well = [group(f"h{n}", attempts=50, campaign=path) for n in range(4) for path in paths]
    lost = group("dead", "lost", 20)
    everywhere = [group("dead", "lost", 2, campaign=path) for path in paths]
    again = [replace(lost, session_id=n, attempts=2) for n in range(5)]
    for accused, groups in ((False, [lost]), (False, everywhere), (True, again)):
        places = {place.name: place for place in compare_places("host", [], [*well, *groups], [])}
        assert places["dead"].is_failing == accused
        assert places["dead"].bad == sum(attempts.attempts for attempts in groups)


def test_attempts_from_before_a_change_count_for_no_verdict() -> None:
    """A campaign that runs longer since a change makes no host slow that came after it."""
    before = [
        replace(group(f"h{n}", times=ran([0.9, 1, 1.1] * 30), outdated=True), attempts=90)
        for n in range(6)
    ]
    since = [
        replace(group(host, times=ran([4.5, 5, 5.5] * 20)), attempts=60) for host in ("h1", "new")
    ]
    places = {place.name: place for place in compare_places("host", [], [*before, *since], [])}
    assert not any(place.verdict for place in places.values())
    assert places["h0"].attempts == 90
    bad = replace(failed("h0", 40), outdated=True)
    places = {place.name: place for place in compare_places("host", [], [*before, *since, bad], [])}
    assert (places["h0"].bad, places["h0"].verdict) == (0, "")


def test_campaign_that_fails_since_a_change_says_so() -> None:
    """Most likely that change is the cause, such as of an input."""
    since = [failed(f"h{n}", 20) for n in range(4)]
    before = [group(f"h{n}", attempts=30, outdated=True) for n in range(4)]
    changed = "; before the campaign or its inputs were last changed, or it was resumed, "
    assert verdict([*since, *before]).why.endswith(f"{changed}0 % of 120 attempts did")
    assert changed not in verdict(since).why
    worse = [replace(attempts, outdated=True) for attempts in since]
    assert changed not in verdict([*since, *worse]).why
