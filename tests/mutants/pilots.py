"""Bugs in pilots: what is decided, what is written down, and when an agent leaves."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_LOOP: Final = ("tests/integration/pilots/test_loop.py",)
_PLANNER: Final = ("tests/unit/test_pilot_planner.py",)
_GATEWAY: Final = ("tests/integration/pilots/test_over_gateway.py",)
_IDLE: Final = ("tests/unit/test_agent_idle.py",)
_PBS: Final = ("tests/integration/pilots/test_pbs_driver.py",)

PILOTS: Final = (
    Mutant(
        "job-is-submitted-before-it-is-written-down",
        "taskq/pilots/reconcile.py",
        '    if job.status == "ended" == seen.state:\n        return None\n',
        '    if job.status in ("ended", "submitting"):\n        return None\n',
        "A job whose submitter died is not found again, though the batch system has it.",
        _LOOP,
    ),
    Mutant(
        "one-answer-orphans-jobs",
        "taskq/pilots/reconcile.py",
        "    if job.missing_polls + 1 < MISSING_POLLS or not is_long:\n",
        "    if False:\n",
        "A job that is missing in one answer runs on unwatched, and another is submitted.",
        ("tests/unit/test_pilot_reconcile.py", "tests/property/test_pilot_answers.py"),
    ),
    Mutant(
        "job-that-turns-up-is-left-alone",
        "taskq/pilots/reconcile.py",
        'job.status != "ended" or job.outcome in UNPROVEN]',
        'job.status != "ended"]',
        "A job that was given up, and is there after all, runs on unwatched.",
        ("tests/unit/test_pilot_reconcile.py", "tests/property/test_pilot_answers.py"),
    ),
    Mutant(
        "two-loops-act-for-a-pilot",
        "sql/functions/hold_pilot.sql",
        "and (p.holder = p_holder or p.held_until < v_now\n",
        "and (p_term_s >= 0\n",
        "Each loop takes the pilot from the other in the midst of its work.",
        _LOOP,
    ),
    Mutant(
        "former-loop-writes-on",
        "sql/functions/lock_held_pilot.sql",
        "       and p.holder = p_holder\n",
        "",
        "A loop that stood still writes down what it saw long ago.",
        _LOOP,
    ),
    Mutant(
        "silence-is-the-end-of-all-jobs",
        "taskq/pilots/loop.py",
        "if job.name in answer.seen or job.place not in answer.silent or job.age_s > over_s",
        "if job.name in answer.seen or job.age_s > 0",
        "The jobs of a host that gives no answer are taken for dead, and others submitted.",
        _LOOP,
    ),
    Mutant(
        "each-pilot-asks-for-itself",
        "taskq/pilots/loop.py",
        "                system = self._driver(pilot)[1].system\n",
        "                system = pilot.pilot_id\n",
        "A controller gets one squeue for each pilot in every round.",
        ("tests/integration/pilots/test_terms.py",),
    ),
    Mutant(
        "jobs-for-a-moment-of-work",
        "taskq/pilots/planner.py",
        "    wanted = max(0, min(by_number, by_time - at_hand))\n",
        "    wanted = by_number\n",
        "A thousand tasks of a second bring as many jobs as could be filled.",
        _PLANNER,
    ),
    Mutant(
        "agents-about-to-end-count",
        "taskq/pilots/planner.py",
        "[one for one in left_s if one >= work.longest_usual_s]",
        "left_s",
        "Nothing is submitted beside jobs that cannot begin another task.",
        _PLANNER,
    ),
    Mutant(
        "work-for-longer-than-a-job-lasts",
        "taskq/pilots/planner.py",
        "    return min(settings.least_work, settings.lifetime_s)\n",
        "    return settings.least_work\n",
        "Short jobs are waited for one after the other, and cores idle.",
        ("tests/unit/test_pilot_campaigns.py",),
    ),
    Mutant(
        "idle-since-the-start",
        "agents/taskq_agent/core/core.py",
        "            self._claiming.busy_at = self._now\n",
        "            pass\n",
        "An agent leaves in the midst of its work, since its start is long ago.",
        _IDLE,
    ),
    Mutant(
        "payload-fails-with-its-agent",
        "agents/taskq_agent/core/core.py",
        "        with_agent = self._signalled and is_by_sigterm(event)\n",
        "        with_agent = False\n",
        "A task that the batch system ended together with its agent has failed.",
        _IDLE,
    ),
    Mutant(
        "manager-acts-for-pilots-of-others",
        "sql/functions/hold_pilot.sql",
        "        and taskq.token_covers(p.path)\n",
        "",
        "A manager's token keeps the loop of somebody else's pilot from acting.",
        _GATEWAY,
    ),
    Mutant(
        "manager-sees-pilots-beside-its-campaign",
        "sql/functions/token_covers.sql",
        "taskq.at_or_below(p_path, own.path)",
        "starts_with(p_path, own.path)",
        "A token for /c is one for the pilots of /cc.",
        _GATEWAY,
    ),
    Mutant(
        "manager-stores-a-pilot",
        "sql/functions/create_pilot.sql",
        "-- @gateway no",
        "-- @gateway manager\n-- @repeat safe",
        "Whoever has a manager's token runs programs as the user of any loop.",
        _GATEWAY,
    ),
    Mutant(
        "held-job-was-cancelled",
        "taskq/pilots/drivers/htcondor.py",
        '    if not by_rule:\n        return "cancelled"\n',
        '    if True:\n        return "cancelled"\n',
        "Jobs that HTCondor holds one after the other never pause their pilot.",
        ("tests/integration/pilots/test_htcondor_driver.py",),
    ),
    Mutant(
        "pod-that-runs-is-deleted",
        "taskq/pilots/drivers/kubernetes.py",
        'for name, job in known.items() if job.state == "queued"]',
        "for name in known]",
        "An agent that has just begun loses its pod when nothing waits any more.",
        ("tests/integration/pilots/test_kubernetes_driver.py",),
    ),
    Mutant(
        "no-history-is-no-jobs",
        "taskq/pilots/drivers/pbs.py",
        "        if not numbers:  # which is no error, if the server keeps no history\n",
        "        if numbers is None:\n",
        "On a server of PBS without a history all jobs seem gone, and others are submitted.",
        _PBS,
    ),
    Mutant(
        "what-qstat-leaves-out-is-gone",
        "taskq/pilots/drivers/pbs.py",
        "if not found.get(number, {}).keys() >= _KNOWN:",
        "if number in found and not found[number].keys() >= _KNOWN:",
        "A release whose qstat tells of one job in several ends all others.",
        _PBS,
    ),
    Mutant(
        "deleted-job-has-died",
        "taskq/pilots/drivers/pbs.py",
        'reason="cancelled" if job.get("substate") == _TERMINATED else ',
        "reason=",
        "Jobs that somebody deletes pause their pilot.",
        _PBS,
    ),
    Mutant(
        "job-that-runs-is-deleted",
        "taskq/pilots/drivers/pbs.py",
        '[one for one in self._select("-s", _QUEUED) if one in asked]',
        "sorted(asked)",
        "An agent that has just begun loses its job when nothing waits any more.",
        _PBS,
    ),
    Mutant(
        "job-that-is-over-cannot-be-cancelled",
        "taskq/pilots/drivers/slurm.py",
        "if not set(some).isdisjoint(waiting):",
        "if some:",
        "A job that ends while it is cancelled ends the loop's round.",
        ("tests/integration/pilots/test_slurm_driver.py",),
    ),
)
