"""Statistics of hosts, sites and classes of error, without a database."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from taskq.diagnosis.bans import Ban
from taskq.diagnosis.blame import FailureVerdict, TaskFates, blame, failing_why
from taskq.diagnosis.evidence import RunTimeSums, compare, share, slowness
from taskq.diagnosis.judging import NOTABLE, Judgement
from taskq.diagnosis.places import Place, compare_places
from taskq.diagnosis.sample import AttemptGroup


def group(
    host: str,
    outcome: str = "done",
    attempts: int = 1,
    *,
    site: str = "s",
    campaign: str = "/c",
    error_class: str | None = None,
    times: RunTimeSums | None = None,
    outdated: bool = False,
) -> AttemptGroup:
    """Return attempts that ended alike, each of them after a second."""
    ran = times or RunTimeSums(attempts)
    session = abs(hash((host, site)))
    return AttemptGroup(
        *(
            campaign,
            session,
            host,
            site,
            1,
            True,
            outcome,
            error_class,
            outdated,
            attempts,
            attempts,
        ),
        *(float(attempts), ran.logs, ran.squares, None, None, None),
    )


def failed(host: str, attempts: int, error_class: str = "exit-1", site: str = "s") -> AttemptGroup:
    """Return attempts that failed."""
    return group(host, "failed", attempts, site=site, error_class=error_class)


def ran(seconds: Iterable[float]) -> RunTimeSums:
    """Return what is known of run times."""
    logs = [math.log(one) for one in seconds]
    return RunTimeSums(len(logs), sum(logs), sum(one * one for one in logs))


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
    sites = {one.name: one for one in compare_places("site", [], sample, [])}
    assert sites["alpha"].apart == ["hole"]
    assert not sites["alpha"].verdict
    assert "100 % of 120 attempts fail here" in sites["gamma"].verdict
    assert sites["gamma"].proposal is not None
    assert sites["gamma"].proposal.startswith("taskq site ban --why ")
    assert sites["gamma"].proposal.endswith(" --until 1d gamma")
    hosts = compare_places("host", [], sample, [])
    assert [one.name for one in hosts if one.verdict] == ["hole", "g0", "g1", "g2"]


def verdict(
    sample: list[AttemptGroup],
    again: int = 0,
    then_done: int = 0,
    error_class: str = "exit-1",
    **more: Any,
) -> FailureVerdict:
    """Judge the failures of a class."""
    failures = [one for one in sample if one.error_class == error_class and not one.outdated]
    attempts = sum(one.attempts for one in failures)
    fates = TaskFates(
        "/c", error_class, attempts, attempts, again, then_done, max_attempts=3, **more
    )
    (found,) = blame(sample, [fates], 9)
    return found


def test_fault_is_found_on_each_side() -> None:
    """Of a node, a site, the campaign, the tasks, nobody; or it is not known."""
    good = [group(f"h{n}", attempts=100, site=f"s{n % 3}") for n in range(9)]
    node = verdict([*good, failed("n17", 300, site="s1")], then_done=200)
    assert (node.side, node.places) == ("node", ["n17"])
    assert node.why.startswith("100 % of 300 attempts on n17 (9")
    assert node.share.share == pytest.approx(0.25)
    bad_site = [failed(f"g{n}", 50, site="gamma") for n in range(4)]
    site = verdict([*good, *bad_site], then_done=100)
    assert (site.side, site.places) == ("site", ["gamma"])
    # Of each of its hosts too little is known.
    many = [group(f"d{n}", site="delta") for n in range(80)]
    thin = [failed(f"d{n}", 1, site="delta") for n in range(40)]
    assert verdict([*good, *many, *thin]).side == "site"
    everywhere = [failed(f"h{n}", 60) for n in range(9)]
    assert verdict(everywhere).side == "campaign"
    now_and_then = [*good, *(failed(f"h{n}", 3, site=f"s{n % 3}") for n in range(9))]
    assert verdict(now_and_then, again=14).side == "task"
    assert verdict(now_and_then, then_done=14).side == "chance"
    assert verdict(now_and_then, again=1, then_done=1).side == "unclear"
    assert verdict([failed("h1", 60)]).side == "unclear"


def test_frequent_chance_is_nobodys_fault_and_takes_more_attempts() -> None:
    """A task that has failed fails no more often than any other, however often that is."""
    half = [group(f"h{n}", attempts=30) for n in range(8)]
    half += [failed(f"h{n}", 24) for n in range(8)]
    found = verdict(half, again=30, then_done=38, last_tries=60, last_done=36)
    assert (found.side, found.remedy) == ("chance", None)
    assert found.proposal == "taskq campaign change /c --max-attempts 9"
    assert "; with 9 attempts, one task in 1,000 fails for good: of 60 last" in found.why
    # Where few attempts fail, and those of the same tasks, it is their fault.
    rare = [group(f"h{n}", attempts=200) for n in range(8)]
    rare += [failed(f"h{n}", 9) for n in range(8)]
    assert verdict(rare, again=30, then_done=5).side == "task"
    assert verdict(rare, then_done=30).raised == ()


@pytest.mark.parametrize(("tries", "done"), [(0, 0), (4, 3), (40, 0), (60, 2)])
def test_more_attempts_are_proposed_only_if_the_last_ones_show_that_they_help(
    tries: int, done: int
) -> None:
    """Not if few came so far, nor if those fail that did."""
    half = [group(f"h{n}", attempts=30) for n in range(8)]
    half += [failed(f"h{n}", 24) for n in range(8)]
    found = verdict(half, again=30, then_done=38, last_tries=tries, last_done=done)
    assert (found.side, found.proposal) == ("chance", None)


@pytest.mark.parametrize(("again", "then_done"), [(1, 4), (0, 3), (2, 8)])
def test_few_tasks_give_no_verdict(again: int, then_done: int) -> None:
    """An interval as wide as 0 % to 90 % says nothing."""
    sample = [group(f"h{n}", attempts=20) for n in range(4)]
    sample += [failed(f"h{n}", 3) for n in range(4)]
    assert verdict(sample, again, then_done).side == "unclear"


@pytest.mark.parametrize(("bad", "good"), [(4, 4), (3, 4), (10, 12)])
def test_hosts_that_split_in_halves_are_shown_and_none_is_accused(bad: int, good: int) -> None:
    """No ban of half of a farm: something makes them differ."""
    sample = [group(f"g{n}", attempts=60) for n in range(good)]
    sample += [failed(f"b{n}", 50) for n in range(bad)]
    found = verdict(sample, then_done=40)
    assert (found.side, found.proposal) == ("unclear", None)
    assert "on b0" in found.why
    assert f"so many of {bad + good} hosts are no exception" in found.why
    few = [group(f"g{n}", attempts=60) for n in range(12)]
    assert verdict([*few, failed("b0", 50)], then_done=40).side == "node"


def test_limit_that_is_too_short_is_proposed_from_the_times_of_those_that_end() -> None:
    """Neither chance nor the fault of hosts that are slow; attempts that were cut are censored."""
    draw = random.Random(5)
    times: dict[str, list[float]] = {f"h{n}": [] for n in range(6)}
    for _ in range(3_000):
        host = draw.choice(list(times))
        times[host].append(draw.lognormvariate(math.log(20 if host < "h4" else 32), 0.5))
    sample = []
    for host, some in times.items():
        ended = [it for it in some if it <= 40]
        sample += [
            group(host, attempts=len(ended), times=ran(ended)),
            failed(host, len(some) - len(ended), "time-limit"),
        ]
    found = verdict(sample, 50, 300, "time-limit", time_limit_s=40.0, last_tries=60, last_done=30)
    assert (found.side, found.places) == ("campaign", [])
    option, value = found.raised
    assert option == "--time-limit"
    assert 80 < float(value.removesuffix("s")) < 240  # 999 of 1,000 end within 128 s
    assert "how long the others would have taken is unknown" in found.why
    # A host where all is cut hangs.
    hangs = [group(f"h{n}", attempts=99) for n in range(6)]
    hangs.append(failed("hung", 80, "time-limit"))
    assert verdict(hangs, 0, 60, "time-limit", time_limit_s=40.0).side == "node"


def test_other_faults_of_a_host_are_no_evidence() -> None:
    """Where everything else fails, this class may still be the tasks'."""
    sample = [
        *(group(f"h{n}", attempts=100) for n in range(9)),
        *(failed(f"h{n}", 2) for n in range(9)),
        failed("h3", 500, "exit-127"),
    ]
    assert verdict(sample, again=15).side == "task"


def test_rate_that_may_be_chance_has_a_word_of_its_own() -> None:
    """Neither a verdict nor silence, where it looks worse than elsewhere."""
    groups = [group(f"h{n}", attempts=95) for n in range(4)]
    groups += [failed(f"h{n}", 5) for n in range(4)]
    groups += [group("g", attempts=28, site="gamma"), failed("g", 3, site="gamma")]
    by_name = {one.name: one for one in compare_places("site", [], groups, [])}
    assert by_name["gamma"].verdict == ""
    assert by_name["gamma"].remark.startswith(
        "9.7 % of 31 attempts fail here, which is not clearly more than elsewhere: "
    )
    assert by_name["s"].remark == ""


def test_failing_places_come_before_slow_ones_and_bans_last() -> None:
    """However many slots they have."""
    groups = [group(f"h{n}", times=ran([0.9, 1, 1.1] * 30)) for n in range(4)]
    groups = [replace(one, attempts=90) for one in groups]
    slow = replace(group("slow", times=ran([4.5, 5, 5.5] * 30)), attempts=90)
    groups += [slow, failed("hole", 9), failed("gone", 9)]
    ban = Ban("host", "gone", "sold", "me", datetime.now(timezone.utc), None)
    names = [one.name for one in compare_places("host", [], groups, [ban])]
    assert (names[:2], names[-1]) == (["hole", "slow"], "gone")


def test_loss_by_a_ban_is_the_share_of_the_work() -> None:
    """Of the successes; the rest has to do that as well."""
    groups = [group("h", attempts=92, site="s"), group("g", attempts=8, site="gamma")]
    by_name = {one.name: one for one in compare_places("site", [], groups, [])}
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
    bans = {one.name: one.proposal for one in compare_places("host", [], groups, [])}
    assert bans["bad"] == "taskq host ban --why exit-9 --until 1d bad"
    assert bans["dead"] == "taskq host ban --why 'agents are lost here' --until 1d dead"


def test_one_bad_host_of_two_is_no_bad_site() -> None:
    """The ban of a site for one host would cost the other."""
    groups = [group(f"h{n}", attempts=90, site=f"s{n // 2}") for n in range(8)]
    groups += [failed("h7", 90, site="s3")]
    assert not any(one.proposal for one in compare_places("site", [], groups, []))
    hosts = compare_places("host", [], groups, [])
    assert [one.name for one in hosts if one.proposal] == ["h7"]
    groups += [failed("h6", 60, site="s3")]
    sites = compare_places("site", [], groups, [])
    assert [one.name for one in sites if one.proposal] == ["s3"], "now both fail"


def _sites(*groups: AttemptGroup) -> dict[str, Place]:
    """Compare the sites, with others that do well in both campaigns."""
    well = [
        replace(group(f"h{n}", site=f"s{n % 3}", campaign=path, times=ran([0.9, 1, 1.1] * 30)))
        for n in range(6)
        for path in ("/c", "/d")
    ]
    well = [replace(one, attempts=90) for one in well]
    return {one.name: one for one in compare_places("site", [], [*well, *groups], [])}


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
    """However many attempts it had. Agents that are lost again and again do accuse their host."""
    well = [group(f"h{n}", attempts=50) for n in range(4)]
    lost = group("dead", "lost", 20)
    again = [replace(lost, session_id=n, attempts=2) for n in range(5)]
    for accused, groups in ((False, [lost]), (True, again)):
        places = {one.name: one for one in compare_places("host", [], [*well, *groups], [])}
        assert places["dead"].is_failing == accused
        assert places["dead"].bad == sum(one.attempts for one in groups)


def test_attempts_from_before_a_change_count_for_no_verdict() -> None:
    """A campaign that runs longer since a change makes no host slow that came after it."""
    before = [
        replace(group(f"h{n}", times=ran([0.9, 1, 1.1] * 30), outdated=True), attempts=90)
        for n in range(6)
    ]
    since = [
        replace(group(host, times=ran([4.5, 5, 5.5] * 20)), attempts=60) for host in ("h1", "new")
    ]
    places = {one.name: one for one in compare_places("host", [], [*before, *since], [])}
    assert not any(one.verdict for one in places.values())
    assert places["h0"].attempts == 90
    bad = replace(failed("h0", 40), outdated=True)
    places = {one.name: one for one in compare_places("host", [], [*before, *since, bad], [])}
    assert (places["h0"].bad, places["h0"].verdict) == (0, "")


def test_campaign_that_fails_since_a_change_says_so() -> None:
    """Most likely that change is the cause, such as of an input."""
    since = [failed(f"h{n}", 20) for n in range(4)]
    before = [group(f"h{n}", attempts=30, outdated=True) for n in range(4)]
    changed = "; before the campaign or its inputs were last changed, or it was resumed, "
    assert verdict([*since, *before]).why.endswith(f"{changed}0 % of 120 attempts did")
    assert changed not in verdict(since).why
    worse = [replace(one, outdated=True) for one in since]
    assert changed not in verdict([*since, *worse]).why
