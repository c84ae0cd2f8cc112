"""Bugs in bans, and in verdicts on hosts, sites and failures."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_BANS: Final = ("tests/integration/sessions/test_bans.py",)
_CAMPAIGN_BANS: Final = ("tests/integration/sessions/test_campaign_bans.py",)
_EVIDENCE: Final = (
    "tests/unit/test_fleet_evidence.py",
    "tests/unit/test_fleet_verdicts.py",
)
_EXPLAIN: Final = ("tests/integration/explaining/test_campaigns.py",)

FLEET: Final = (
    Mutant(
        "lost-agent-counts-for-each-campaign",
        "taskq/diagnosis/judging.py",
        "agent = group.host, group.site, group.session_id or group.campaign",
        "agent = group.host, group.site, group.campaign",
        "A host whose network fails once is to be banned, since its agent had tasks of several.",
        ("tests/unit/test_fleet_evidence.py",),
    ),
    Mutant(
        "tasks-of-a-size-are-at-fault-anywhere",
        "taskq/diagnosis/sizes.py",
        "names = [name for kind in _KINDS if (name := _gathered(groups, kind))]",
        "names: list[str] = []",
        "Large tasks are called at fault that fail at one site only.",
        ("tests/unit/test_sizes_at_places.py",),
    ),
    Mutant(
        "place-is-accused-of-results-that-are-far-in-part",
        "taskq/diagnosis/odd_results.py",
        "yield replace(found, in_part=True)",
        "yield found",
        "The only host that can do large tasks is to be banned, and its results withdrawn.",
        ("tests/unit/test_odd_results.py",),
    ),
    Mutant(
        "ban-is-not-seen-at-the-door",
        "sql/functions/sessions/admit_agent.sql",
        "     where v_banned is null\n",
        "",
        "An agent that starts on a banned host claims tasks.",
        _BANS,
    ),
    Mutant(
        "ban-never-ends",
        "sql/functions/sessions/bans_at.sql",
        "            and (b.until > clock_timestamp()) is not false\n",
        "",
        "A host stays banned when its time is over.",
        _BANS,
    ),
    Mutant(
        "ban-of-a-host-is-one-of-its-site",
        "sql/functions/sessions/ban.sql",
        "p_path, case p_kind when 'site' then array[p_name] end",
        "p_path, array[p_name]",
        "Agents of a banned host stay, unless their site has the same name.",
        _BANS,
    ),
    Mutant(
        "ban-of-a-site-is-looked-for-under-its-host",
        "sql/functions/sessions/bans_at.sql",
        "('site', p_site)",
        "('site', p_host)",
        "Agents are let in at a site that is banned.",
        ("tests/property/test_queue_model.py",),
    ),
    Mutant(
        "ban-for-a-campaign-drains-all",
        "sql/functions/sessions/ban.sql",
        "        p_path, case p_kind",
        "        '/', case p_kind",
        "A host that cannot run one campaign is lost for all.",
        _CAMPAIGN_BANS,
    ),
    Mutant(
        "new-session-does-not-learn-of-a-ban-for-a-campaign",
        "sql/functions/sessions/admit_agent.sql",
        "           taskq.campaign_bans(left(p_host, 200), left(p_site, 200), p_path)\n",
        "           null::jsonb\n",
        "An agent that restarts begins tasks of a campaign that its host is banned for.",
        _CAMPAIGN_BANS,
    ),
    Mutant(
        "ban-for-a-campaign-stays-in-sessions",
        "sql/functions/sessions/drain_banned.sql",
        "        or b.until > p_since and b.until <= v_now;\n",
        "        ;\n",
        "Agents leave a campaign out although the ban has ended.",
        _CAMPAIGN_BANS,
    ),
    Mutant(
        "session-opened-meanwhile-escapes-a-ban",
        "sql/functions/upkeep/keep.sql",
        "    perform taskq.drain_banned(least(v_until, clock_timestamp()) - interval '10 min');\n",
        "",
        "An agent that came while its host was banned works on there.",
        _BANS,
    ),
    Mutant(
        "ban-made-without-a-keeper-is-forgotten",
        "sql/functions/upkeep/keep.sql",
        "drain_banned(least(v_until, clock_timestamp()) - interval '10 min')",
        "drain_banned()",
        "An agent works on where it is banned, since a keeper came half an hour later.",
        _BANS,
    ),
    Mutant(
        "bad-hosts-are-a-measure",
        "taskq/diagnosis/judging.py",
        "for campaign, (part, whole) in found.items() if name not in self.failing else ():",
        "for campaign, (part, whole) in found.items():",
        "Compared with a black hole all other hosts look well.",
        _EVIDENCE,
    ),
    Mutant(
        "small-campaign-halves-the-sample",
        "sql/functions/diagnosis/attempt_sample.sql",
        "        v_left := v_left - v_read;\n",
        "        v_left := v_left - v_each;\n",
        "Next to a campaign with one attempt, half of the attempts of another one are not seen.",
        ("tests/integration/hosts/test_fleet.py",),
    ),
    Mutant(
        "evidence-from-before-a-repair",
        "sql/functions/diagnosis/attempt_sample.sql",
        "                   (a.claimed_at < greatest(v_since, b.until)) is true,\n",
        "                   (a.claimed_at < b.until) is true,\n",
        "A host that was mended stays accused, and its ban is proposed.",
        ("tests/integration/explaining/test_failed.py",),
    ),
    Mutant(
        "evidence-from-before-a-ban-was-lifted",
        "sql/functions/sessions/unban.sql",
        """        update taskq.ban b
           set until = v_now
""",
        "        delete from taskq.ban b\n",
        "A host that was repaired and let in again stays accused, and is banned anew.",
        ("tests/integration/explaining/test_failed.py",),
    ),
    Mutant(
        "message-of-another-host",
        "sql/functions/diagnosis/latest_failure.sql",
        "         where n.host = p_host or p_host is null\n",
        "",
        "A host is banned for what failed elsewhere.",
        ("tests/integration/hosts/test_fleet.py",),
    ),
    Mutant(
        "site-is-blamed-for-a-host",
        "taskq/diagnosis/places.py",
        'failing_hosts_apart(current, Judgement(by_place(current, "host")).failing)\n',
        "{}\n",
        "A site is proposed to be banned since one of its hosts is broken.",
        _EVIDENCE,
    ),
    Mutant(
        "reason-is-that-of-the-campaign-below",
        "taskq/diagnosis/obstacles.py",
        "next((it for it in facts.closed if is_within(path, it.path)), None)",
        "next((it for it in facts.closed if is_within(it.path, path)), None)",
        "Somebody who is paused from above gets another reason.",
        _EXPLAIN,
    ),
)
