"""The script of `deploy/slurm` on a real Slurm: what it starts by hand drains a campaign."""

from __future__ import annotations

import json
import re
from pathlib import Path

from taskq import Client
from taskq.pilots.agent_file import built
from tests.fixtures.gateways import StartGateway
from tests.helpers.paths import ROOT
from tests.helpers.pilot_site import PilotSite
from tests.slurm.cluster import SlurmCluster

SCRIPT = ROOT / "deploy/slurm/agents.sbatch"
TASKS = 24


def test_array_of_agents_drains_a_campaign_and_leaves(
    queue: Client,
    slurm: SlurmCluster,
    start_gateway: StartGateway,  # the fixture of conftest
    tmp_path: Path,
) -> None:
    """One agent is cancelled amid its tasks: nothing is lost. All know when their jobs end."""
    gateway = start_gateway(keeper=True, expected=[""])
    site = PilotSite(queue, "slurm", gateway.url, tmp_path, environment=slurm.environment)
    text = SCRIPT.read_text(encoding="utf-8").replace("https://gw.example.org", gateway.url)
    script = tmp_path / "agents.sbatch"
    script.write_text(text.replace("--spread 20", "--spread 1 --grace 1"), encoding="utf-8")
    (tmp_path / "taskq-agent.pyz").write_bytes(built())
    site.seed(TASKS, task_s=2)
    words = ("--array=1-2", "--cpus-per-task=2", "--time=10", f"--chdir={tmp_path}", script)
    submitted = slurm.run("sbatch", "--parsable", *words)
    assert submitted.returncode == 0, submitted.stderr
    job = submitted.stdout.strip()
    site.wait(lambda: site.done() > 4)
    slurm.said("scancel", f"{job}_1")
    site.wait(lambda: site.done() == TASKS, 240)
    site.wait(lambda: slurm.jobs() == {})
    site.assert_nothing_is_lost(TASKS)

    outputs = {number: tmp_path / f"taskq-agents-{job}_{number}.out" for number in (1, 2)}
    for output in outputs.values():
        (left_s,) = re.findall(r"the batch job ends in (\d+) s", output.read_text())
        assert 0 < int(left_s) <= 600
    summary = json.loads(outputs[2].read_text().splitlines()[-1])
    assert summary["exit_code"] == 0
