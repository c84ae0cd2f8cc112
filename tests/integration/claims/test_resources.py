"""What a campaign's tasks need decides which agents get them, and what an attempt may occupy."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from taskq import CampaignSpec, Client, Handler, RetryPolicy, Seed
from taskq.files.archives import Checkpoints
from taskq.files.blobs import open_blobs
from taskq.model.errors import InvalidCampaign
from taskq_agent.protocol import Held
from tests.fixtures.queues import Hire
from tests.helpers.command_line import TIMEOUT_S, CommandLine
from tests.helpers.postgres import Postgres, value

GIB = 1 << 30
OCCUPY = "import time; x = b'x' * ({mebibytes} << 20); time.sleep(1.5)"


def test_resources_are_stored_and_become_requirements(queue: Client, postgres: Postgres) -> None:
    """Next to the tags, which stay as people gave them."""
    spec = CampaignSpec("/c", requires=("avx",), cores=4, memory=("4.5G", "8G"), gpus=2)
    campaign = queue.create_campaign(spec)
    assert campaign.spec() == spec
    required = value(postgres, "select requires from taskq.campaign where path = '/c'")
    assert required == ["avx", "cores>=4", "mem>=4.5", "gpus>=2"]
    campaign.change(CampaignSpec("/c"))
    assert campaign.spec() == CampaignSpec("/c")
    assert value(postgres, "select requires from taskq.campaign where path = '/c'") == []


@pytest.mark.parametrize(
    ("offers", "speaks", "gets"),
    [
        (("gpus=0.125",), True, False),
        (("gpus=0.25",), True, True),
        (("gpus=2",), True, True),
        (("gpus=1", "protocol=1"), False, False),
    ],
)
def test_share_of_a_gpu_goes_to_agents_whose_slots_have_it(
    queue: Client, hire: Hire, offers: tuple[str, ...], *, speaks: bool, gets: bool
) -> None:
    """Agents of an earlier protocol could not read it."""
    queue.create_campaign(CampaignSpec("/c", gpus=0.25)).seed([{"n": 1}])
    assert bool(hire(offers=offers, speaks=speaks).claim()) == gets


@pytest.mark.parametrize("gpus", [0, -1, 1.5, 65, 0.001, 0.1234, True, "1", float("nan")])
def test_number_of_gpus_that_no_slot_can_have_is_refused(gpus: float) -> None:
    with pytest.raises(InvalidCampaign, match=r"resources\.gpus must be a whole number up to 64"):
        CampaignSpec("/c", gpus=gpus)


@pytest.mark.thorough
def test_slots_of_an_agent_share_a_device(
    taskq: CommandLine, queue: Client, tmp_path: Path
) -> None:
    """Four tasks at a time on one, which is made up: each waits for the others."""
    begun = tmp_path / "begun"
    begun.mkdir()
    script = (
        f"touch {begun}/$TASKQ_TASK; while [ $(ls {begun} | wc -l) -lt 4 ]; do sleep 0.05; done; "
        'echo "{{\\"on\\": \\"$CUDA_VISIBLE_DEVICES\\"}}" > $TASKQ_RESULT'
    )
    handler = Handler("command", argv=("sh", "-c", script))
    spec = CampaignSpec("/c", handler=handler, gpus=0.25, time_limit_s=TIMEOUT_S / 2)
    campaign = queue.create_campaign(spec)
    campaign.seed([{"n": number} for number in range(4)])
    run = ["agent", "run", "--campaign", "/c", "--until-empty", "--slots", 4, "-o", "json"]
    with taskq.process(*run, environment={"CUDA_VISIBLE_DEVICES": "MIG-4f1c"}) as agent:
        out, log = agent.communicate(timeout=TIMEOUT_S)
    assert (agent.returncode, json.loads(out)["done"]) == (0, 4), log
    assert [dict(found.result or {}) for found in campaign.results()] == [{"on": "MIG-4f1c"}] * 4


@pytest.mark.parametrize(
    ("offers", "gets"),
    [
        ((), False),
        (("cores=4", "mem=3.9"), False),
        (("cores=3", "mem=64"), False),
        (("cores=4", "mem=4"), True),
        (("cores=16", "mem=15"), True),
    ],
)
def test_tasks_go_to_agents_whose_slots_have_what_they_need(
    queue: Client, hire: Hire, offers: tuple[str, ...], gets: bool
) -> None:
    campaign = queue.create_campaign(CampaignSpec("/c", cores=4, memory=("4G",)))
    campaign.seed([{"n": 1}])
    assert bool(hire(offers=offers).claim()) == gets


def test_holder_of_a_task_learns_how_often_it_ran_out_of_memory(queue: Client, hire: Hire) -> None:
    """Other failures do not count, and other agents learn nothing."""
    retry = RetryPolicy(max_attempts=9, backoff_s=0.0)
    campaign = queue.create_campaign(CampaignSpec("/c", retry=retry))
    campaign.seed([Seed({"n": 1}, "a")])
    kept, agent = Checkpoints(queue.database, open_blobs(queue.database)), hire()
    seen = []
    for error_class in ("out-of-memory", "Boom", "out-of-memory"):
        (task,) = agent.claim()
        seen.append(kept.find(None, Held(task.campaign, task.task, task.lease))[1])
        agent.fail(task, error_class)
        with agent._line.connected() as statements:  # noqa: SLF001
            statements.script(
                "update taskq.task set due_at = now(), status = 'waiting' where status = 'delayed'"
            )
    (task,) = agent.claim()
    held = Held(task.campaign, task.task, task.lease)
    assert (seen, kept.find(None, held)[1]) == ([0, 1, 1], 2)
    assert kept.find(hire().session + 10, held)[1] == 0
    assert kept.find(None, Held(task.campaign, task.task, str(agent.key)))[1] == 0


@pytest.mark.thorough
def test_task_is_tried_again_with_more_memory(taskq: CommandLine, queue: Client) -> None:
    """By an agent from the command line; it reports what its attempts used."""
    handler = Handler("command", argv=(sys.executable, "-c", OCCUPY))
    retry = RetryPolicy(max_attempts=2, backoff_s=0.0)
    spec = CampaignSpec("/c", handler=handler, retry=retry, cores=1, memory=("100M", "400M"))
    campaign = queue.create_campaign(spec)
    campaign.seed([Seed({"mebibytes": 10}, "small"), Seed({"mebibytes": 200}, "large")])
    run = ["agent", "run", "--campaign", "/c", "--until-empty", "--slots", 2, "--memory", "500M"]
    with taskq.process(*run, "--cores", 2, "--quiet", "-o", "json") as agent:
        out, log = agent.communicate(timeout=TIMEOUT_S)
    assert (agent.returncode, json.loads(out)["done"], json.loads(out)["failed"]) == (0, 2, 1), log
    phases = {result.key: result.phases or {} for result in campaign.results()}
    assert phases["large"]["peak_bytes"] > 200 << 20 > 2 * phases["small"]["peak_bytes"]
    ended = taskq.out("history", "/c", "large")
    assert "out-of-memory: occupied" in ended
    assert "of CPU" in ended
    (best,) = taskq.json("results", "/c", "--best", 1, "--by", "phases.peak_bytes", "--highest")
    assert best["key"] == "large"


@pytest.mark.thorough
def test_tasks_that_fit_no_slot_wait_and_explain_says_so(taskq: CommandLine, queue: Client) -> None:
    """The agent leaves them to others."""
    taskq.out("campaign", "create", "/c", "--cores", "2", "--memory", "64G,128G", "--", "true")
    taskq.out("seed", "/c", "--sweep", "n=1")
    run = ["agent", "run", "--campaign", "/c", "--until-empty", "--memory", "16G", "-o", "json"]
    with taskq.process(*run, "--cores", 4, "--slots", 2) as agent:
        out, log = agent.communicate(timeout=TIMEOUT_S)
    assert agent.returncode == 3, log
    assert "mem>=64" in json.loads(out)["reason"]
    assert "mem>=64" in taskq.out("explain", "/c")
    shown = taskq.out("campaign", "show", "/c")
    assert "cores 2; memory 64G, then 128G" in shown
    taskq.out("campaign", "change", "/c", "--memory", "none", "--cores", "none")
    assert queue.campaign("/c").spec().memory == ()
    with taskq.process(*run) as agent:
        agent.communicate(timeout=TIMEOUT_S)
    assert agent.returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--memory", "4X"),
        ("--memory", "8G,4G"),
        ("--memory", "1G,2G,3G,4G"),
        ("--cores", "0"),
        ("--gpus", "many"),
        ("--memory", ",".join(f"{n}G" for n in range(1, 10))),
    ],
)
def test_resources_that_make_no_sense_are_refused(
    taskq: CommandLine, words: tuple[str, ...]
) -> None:
    """Also more sizes than attempts."""
    ended = taskq("campaign", "create", "/c", *words, "--", "true")
    assert ended.exit_code == 2
    assert words[0][2:] in ended.stderr
