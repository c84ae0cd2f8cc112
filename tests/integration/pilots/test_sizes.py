"""Pilots ask the batch system for what tasks need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from taskq.model.pilot_views import PilotView
from taskq.pilots.drivers import Driver
from taskq.pilots.loop import PilotLoop
from taskq.pilots.settings import PilotSettings
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, value
from tests.helpers.scripted_agent import report_of
from tests.integration.pilots.support import PilotScene

MEBI = 1 << 20


def needing(scene: PilotScene, **needs: object) -> None:
    """Let starts of the campaign need this."""
    scene.campaign.change(replace(scene.campaign.spec(), **needs))  # type: ignore[arg-type]


def submitted(scene: PilotScene) -> PilotSettings:
    """Let a loop act once; return the settings of the jobs that it submits."""
    made: list[PilotSettings] = []

    def make(_: PilotView, settings: PilotSettings, __: Mapping[str, str]) -> Driver:
        made.append(settings)
        return scene.batch

    (done,) = PilotLoop(scene.queries, {}, make=make).round()
    assert done.submitted > 0
    return made[-1]


def test_jobs_are_submitted_as_large_as_what_waits_needs(scene: PilotScene) -> None:
    """Devices that slots share, cores, named resources; `explain` says so."""
    needing(scene, cores=2, gpus=0.25, named_resources={"scratch": 20 << 30})
    scene.add(as_needed=True, slots=4, cores=1, resource_options=["scratch=--tmp={MiB}"])
    scene.seed(40)
    jobs = submitted(scene)
    assert (jobs.cores, jobs.gpus, jobs.memory) == (8, "1", None)
    assert jobs.all_options == ("--tmp=81920",)
    plan = scene.queue.pilots.plan("hpc")
    assert plan.why[0] == "Jobs have what /c needs: cores 8; GPUs 1; scratch 80G."
    assert plan.why[1].startswith("40 tasks waiting for agents like these")


def test_jobs_have_the_memory_that_the_campaign_has_learnt(
    scene: PilotScene, hire: Hire, postgres: Postgres
) -> None:
    """What 95 % needed for each slot, and what all needed for a task that is tried again."""
    needing(scene, memory="learn")
    scene.add(as_needed=True, slots=2)
    scene.seed(120)
    assert submitted(scene).memory is None, "nothing is known yet"
    agent = hire("/c")
    used = [500] * 99 + [3_000]
    ended = zip(agent.claim(100), used, strict=True)
    agent.exchange(
        [report_of(task, "done", phases={"peak_bytes": mebi * MEBI}) for task, mebi in ended]
    )
    agent.leave()
    postgres.execute("select taskq.fold('0 s')")
    assert value(postgres, "select taskq.learn_memory()") == 1
    assert scene.campaign.learnt_memory()[:2] == (576 * MEBI, 3_328 * MEBI)
    plan = scene.queue.pilots.plan("hpc")
    assert plan.settings is not None
    assert plan.settings.memory == "3328M"


def test_agents_that_have_less_than_is_needed_do_not_count(scene: PilotScene, hire: Hire) -> None:
    """Else no job would come for the tasks that they cannot take."""
    needing(scene, gpus=1)
    scene.add(as_needed=True, slots=2)
    scene.seed(40)
    hire("/c", slots=1_000)
    assert submitted(scene).gpus == "2"
    hire("/c", slots=1_000, offers=["gpus=2", "cores=1"])
    assert scene.queue.pilots.plan("hpc").submit == 0


def test_pilot_that_does_not_ask_for_it_submits_what_it_says(scene: PilotScene) -> None:
    """And says which option would help."""
    needing(scene, named_resources={"scratch": 20 << 30})
    scene.add()
    scene.seed(40)
    plan = scene.queue.pilots.plan("hpc")
    assert plan.submit == 0
    assert plan.why[1] == (
        "40 tasks of /c not counted: it requires the resource scratch (20G), which these agents do "
        "not have; give --resource scratch=40G, or --as-needed."
    )
