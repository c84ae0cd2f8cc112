"""The loop of pilots: whatever ends it, no job is lost, and none is submitted twice."""

from __future__ import annotations

import pytest

from taskq.model.errors import Conflict, NotFound
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres
from tests.helpers.scripted_batch import Killed
from tests.integration.pilots.support import PilotScene


def test_jobs_are_submitted_for_what_waits_and_looked_after(scene: PilotScene, hire: Hire) -> None:
    """From the first submission to the end of each."""
    scene.add()
    scene.seed(5)
    assert scene.round().submitted == 3
    assert scene.statuses() == ["queued"] * 3
    assert scene.round().submitted == 0, "they are enough"
    first, second, third = scene.batch.names()
    scene.batch.become("running")
    scene.round()
    assert (scene.pilot().starting, scene.pilot().serving) == (3, 0)
    agent = hire("/c", agent=first)
    scene.round()
    assert (scene.pilot().starting, scene.pilot().serving) == (2, 1)
    agent.close()
    scene.batch.become("ended", first, why="COMPLETED")
    scene.batch.become("ended", second, why="NODE_FAIL")
    scene.batch.outputs[second] = "no such file"
    scene.round()
    assert scene.statuses() == ["served", "died", "running"]
    died = scene.jobs()[1]
    assert (died.why, died.tail) == ("NODE_FAIL", "no such file")
    assert third in scene.batch.known


def test_script_that_is_submitted_names_the_job(scene: PilotScene) -> None:
    """Its agent is known by that name."""
    scene.add()
    scene.seed(1)
    scene.round()
    ((name, script),) = scene.batch.scripts
    assert f"--name {name} " in script
    assert f"--campaign {scene.pilot().path} " in script


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("dies", ["before", "after"])
def test_loop_that_is_killed_at_a_submission_is_followed_by_one_that_knows(
    scene: PilotScene, dies: str, count: int
) -> None:
    """The batch system has the job or array or not; in neither case is it submitted again."""
    scene.add(max_jobs=count, array=count)
    scene.seed(100)
    scene.batch.dies = dies
    with pytest.raises(Killed):
        scene.round()
    scene.batch.dies = ""
    second = scene.loop()
    assert not scene.round(second).acted, "the term of the first has not passed"
    scene.let_the_term_pass()
    assert scene.round(second).submitted == 0, "it may be under way"
    if dies == "after":
        assert [job.native_id for job in scene.jobs()] == ["1", "2", "3"][:count]
    else:
        assert scene.statuses() == ["submitting"] * count
        scene.age(400)
        scene.let_the_wait_pass()
        scene.rounds_without_it(second)
        assert scene.statuses()[:count] == ["refused"] * count
        assert scene.pilot().failures == 1, "one submission did not come through"
        scene.let_the_wait_pass()
        scene.round(second)
    assert scene.batch.submissions == 1
    assert scene.statuses()[-count:] == ["queued"] * count


def test_jobs_are_submitted_together_as_many_as_the_pilot_says(scene: PilotScene) -> None:
    """With names that they share; what is left over is a job alone."""
    scene.add(array=3)
    scene.seed(100)
    assert scene.round().submitted == 4
    assert scene.batch.submissions == 2
    base = f"taskq-hpc-{scene.pilot().key}"
    names = [f"{base}-1_0", f"{base}-1_1", f"{base}-1_2", f"{base}-4"]
    assert scene.batch.names() == [job.name for job in scene.jobs()] == names
    scene.batch.become("ended", names[1], why="COMPLETED")
    assert scene.round().ended == 1
    scene.let_the_wait_pass()
    scene.round()
    assert scene.jobs()[4].name == f"{base}-5"


def test_array_of_which_the_batch_system_took_a_part(scene: PilotScene) -> None:
    """Its jobs are looked after, the others are refused and submitted anew."""
    scene.add(array=4)
    scene.seed(100)
    scene.batch.takes = 3
    done = scene.round()
    assert (done.submitted, done.trouble) == (3, None)
    assert scene.statuses() == ["queued"] * 3 + ["refused"]
    assert scene.jobs()[3].why == "the connection was lost"
    assert scene.round().submitted == 1
    assert scene.statuses() == ["queued"] * 3 + ["refused", "queued"]


def test_two_loops_at_once_submit_nothing_twice(scene: PilotScene) -> None:
    """One acts; the other finds that out, also in the midst of a round."""
    scene.add()
    scene.seed(100)
    first, second = scene.loop(), scene.loop()
    assert scene.round(first).submitted == 4
    assert not scene.round(second).acted
    scene.let_the_term_pass()
    assert scene.round(second).acted
    assert not scene.round(first).acted
    assert len(scene.batch.names()) == 4


def test_loop_that_leaves_is_followed_at_once(scene: PilotScene) -> None:
    """A restart costs no term."""
    scene.add()
    first = scene.loop()
    assert scene.round(first).acted
    first.leave()
    assert scene.round(scene.loop()).acted


def test_loop_whose_term_is_over_writes_nothing(scene: PilotScene, postgres: Postgres) -> None:
    """One that stood still knows it when it comes back."""
    scene.add()
    scene.seed(2)
    loop = scene.loop()
    scene.round(loop)
    scene.batch.become("running")
    postgres.execute("update taskq.pilot set holder = gen_random_uuid()")
    with pytest.raises(Conflict, match="another loop acts"):
        scene.queue.database.value(
            "note_pilot",
            pilot=scene.pilot().pilot_id,
            holder="00000000-0000-0000-0000-000000000001",
            jobs='[{"number": 1, "status": "running"}]',
            failures=None,
            trouble=None,
            retry_s=None,
            pause_why=None,
        )
    assert not scene.round(loop).acted
    assert scene.statuses() == ["queued"]


def test_refused_submissions_back_off_and_pause_the_pilot(scene: PilotScene) -> None:
    """With the batch system's own words, and nothing is tried meanwhile."""
    scene.add()
    scene.seed(10)
    scene.batch.refusal = "sbatch failed with code 1: Invalid account"
    assert scene.round().trouble == scene.batch.refusal
    before = scene.batch.prepared
    assert scene.round().submitted == 0
    assert scene.batch.prepared == before, "it waits"
    for _ in range(4):
        scene.let_the_wait_pass()
        scene.round()
    pilot = scene.pilot()
    assert pilot.status == "paused"
    assert pilot.paused_why == (
        "5 submissions failed, one after the other; the last: " + scene.batch.refusal
    )
    assert scene.statuses() == ["refused"] * 5
    assert scene.queue.pilots.plan("hpc").why[-1] == (
        f"It is paused, so nothing is submitted: {pilot.paused_why}."
    )
    scene.batch.refusal = None
    assert scene.queue.pilots.set_status("hpc", "active") == 0
    assert scene.round().submitted == 4
    assert (scene.pilot().failures, scene.pilot().trouble) == (0, None)


def test_limit_of_the_site_does_not_pause_the_pilot(scene: PilotScene, hire: Hire) -> None:
    """While some of its jobs are live, refusals only make it wait."""
    scene.add()
    scene.seed(2)
    scene.round()
    scene.batch.become("running")
    hire("/c", agent=scene.batch.names()[0])
    scene.round()
    scene.seed(20)
    scene.batch.refusal = "sbatch failed with code 1: QOSMaxSubmitJobPerUserLimit"
    for _ in range(7):
        scene.let_the_wait_pass()
        scene.round()
    assert (scene.pilot().status, scene.pilot().failures) == ("active", 7)
    assert "QOSMaxSubmitJobPerUserLimit" in (scene.pilot().trouble or "")


def test_jobs_that_die_unheard_pause_the_pilot(scene: PilotScene) -> None:
    """With the end of their output; one that is heard in between ends the row."""
    scene.add(max_jobs=1)
    scene.seed(10)
    for _ in range(5):
        scene.let_the_wait_pass()
        scene.round()
        name = scene.batch.names()[-1]
        scene.batch.outputs[name] = "starting\npython3: not found"
        scene.batch.become("ended", name, why="FAILED, NonZeroExitCode")
        scene.round()
    pilot = scene.pilot()
    assert pilot.status == "paused"
    assert pilot.paused_why is not None
    assert pilot.paused_why.startswith("5 jobs died before their agents were heard")
    assert pilot.paused_why.endswith("FAILED, NonZeroExitCode: starting | python3: not found")
    assert scene.jobs()[-1].tail == "starting\npython3: not found"


def test_first_heartbeat_of_an_agent_ends_the_series_of_failures(
    scene: PilotScene, hire: Hire
) -> None:
    """The pilot continues."""
    scene.add()
    scene.seed(8)
    scene.batch.refusal = "busy"
    scene.round()
    assert scene.pilot().failures == 1
    scene.batch.refusal = None
    scene.let_the_wait_pass()
    scene.round()
    scene.batch.become("running", scene.batch.names()[0])
    hire("/c", agent=scene.batch.names()[0])
    scene.round()
    assert (scene.pilot().failures, scene.pilot().trouble) == (0, None)


def test_batch_system_that_gives_no_answer_changes_nothing(scene: PilotScene) -> None:
    """No job is taken for dead, and none is submitted blindly; its words are seen."""
    scene.add()
    scene.seed(4)
    scene.round()
    scene.seed(1_000)
    scene.batch.silence = "squeue failed with code 1: Unable to contact slurm controller"
    assert scene.round().trouble == scene.batch.silence
    assert scene.statuses() == ["queued"] * 2
    assert scene.pilot().trouble == scene.batch.silence
    assert any(scene.batch.silence in line for line in scene.queue.pilots.plan("hpc").why)
    scene.batch.silence = None
    assert scene.round().submitted == 2
    assert scene.pilot().trouble is None


def test_jobs_of_a_silent_host_keep_their_state_until_they_must_be_over(scene: PilotScene) -> None:
    """Those of others go on; a host that is gone for good does not hold its places for ever."""
    scene.add(time_limit=600)
    scene.seed(2)
    scene.batch.place = "node1"
    scene.round()
    scene.seed(3)
    scene.batch.place = "node2"
    scene.round()
    scene.batch.silent = frozenset({"node1"})
    scene.batch.become("running")
    assert scene.round().trouble is None
    scene.rounds_without_it()
    assert scene.statuses() == ["queued", "running"]
    assert [job.place for job in scene.jobs()] == ["node1", "node2"]
    scene.age(1_300)
    scene.batch.known.pop(scene.jobs()[0].name)
    scene.rounds_without_it()
    assert scene.statuses()[:2] == ["vanished", "running"]


def test_submission_that_came_through_after_all_is_no_failure(scene: PilotScene) -> None:
    """Whatever the answer was."""
    scene.add(max_jobs=1)
    scene.seed(4)
    taken = scene.batch.submit

    def submit_and_lose_the_answer(*words: object) -> object:
        taken(*words)  # type: ignore[arg-type]
        scene.batch.refusal = "sbatch did not answer within 60 s"
        return taken(*words)  # type: ignore[arg-type]

    scene.batch.submit = submit_and_lose_the_answer  # type: ignore[method-assign,assignment]
    done = scene.round()
    assert (done.submitted, done.trouble) == (1, None)
    assert scene.statuses() == ["queued"]
    assert scene.pilot().failures == 0


def test_machine_without_the_programs_leaves_the_pilot_to_others(scene: PilotScene) -> None:
    """It does not even take the term."""
    scene.add()
    scene.seed(1)
    scene.batch.lacks = "sbatch is not on PATH here"
    done = scene.round()
    assert (done.acted, done.trouble) == (False, "sbatch is not on PATH here")
    scene.batch.lacks = None
    assert scene.round(scene.loop()).acted


def test_queued_jobs_are_cancelled_when_nothing_is_left(scene: PilotScene) -> None:
    """Those that wait would begin for nothing."""
    scene.add()
    scene.seed(8)
    scene.round()
    scene.campaign.cancel()
    scene.age(120)
    assert scene.round().cancelled == 4
    scene.round()
    assert scene.statuses() == ["cancelled"] * 4
    assert scene.pilot().failures == 0, "that is no death"


def test_removed_pilot_goes_with_its_last_job(scene: PilotScene, hire: Hire) -> None:
    """What is queued is cancelled, what runs goes on."""
    scene.add()
    scene.seed(4)
    scene.round()
    first, second = scene.batch.names()
    scene.batch.become("running", first)
    hire("/c", agent=first)
    assert scene.queue.pilots.set_status("hpc", "removed") == 2
    with pytest.raises(Conflict, match="is being removed"):
        scene.queue.pilots.set_status("hpc", "active")
    with pytest.raises(Conflict, match="is being removed"):
        scene.add()
    scene.round()
    assert scene.batch.cancelled == [second]
    scene.round()
    assert scene.statuses() == ["running", "cancelled"]
    scene.batch.become("ended", first, why="COMPLETED")
    scene.round()
    with pytest.raises(NotFound):
        scene.pilot()


def test_removed_pilot_without_jobs_is_gone_at_once(scene: PilotScene) -> None:
    """Also while no loop runs."""
    scene.add()
    assert scene.queue.pilots.set_status("hpc", "removed") == 0
    assert scene.queue.pilots.list() == ()


def test_settings_can_be_changed_while_jobs_run(scene: PilotScene) -> None:
    """They apply to the next ones."""
    scene.add(max_jobs=1)
    scene.seed(10)
    scene.round()
    with pytest.raises(Conflict, match="there is a pilot hpc"):
        scene.add(max_jobs=3)
    settings = {**scene.pilot().settings, "max_jobs": 3}
    assert not scene.queue.pilots.create("hpc", "slurm", "/c", settings, replace=True)
    assert scene.round().submitted == 2


def test_other_agents_of_the_campaign_count(scene: PilotScene, hire: Hire) -> None:
    """Pilots are not the only ones who bring them; those that offer less do not."""
    scene.add(offers=["gpu"], least_work=10)
    scene.seed(10)
    hire("/c", slots=1_000)
    assert any("0 slots" in line for line in scene.queue.pilots.plan("hpc").why)
    hire("/c", slots=50, offers=["gpu", "mem=64"])
    assert any("50 slots" in line for line in scene.queue.pilots.plan("hpc").why)


def test_damaged_pilot_keeps_no_other_waiting(scene: PilotScene, postgres: Postgres) -> None:
    """As one that another release has stored, or somebody by hand."""
    scene.add()
    scene.seed(2)
    scene.queue.pilots.create("a", "slurm", "/c", {"folder": "/jobs"})
    postgres.execute("""update taskq.pilot set settings = '{"slip": 1}' where name = 'a'""")
    first, second = scene.loop().round()
    assert (first.acted, second.submitted) == (False, 1)
    assert first.trouble is not None
    assert "slip" in first.trouble


def test_pilot_of_a_removed_campaign_reports_it_and_holds_up_no_other(scene: PilotScene) -> None:
    """And keeps no other pilot waiting."""
    scene.add()
    queue = scene.queue
    queue.create_campaign("/d")
    queue.pilots.create("a", "slurm", "/d", {"folder": "/jobs", **scene.table})
    queue.campaign("/d").remove()
    first, second = scene.loop().round()
    assert (first.name, second.name, second.trouble) == ("a", "hpc", None)
    assert first.trouble is not None
    assert "no campaign /d" in first.trouble
