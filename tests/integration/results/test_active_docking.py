"""A model that steers a docking campaign finds more of the best ligands than chance."""

from __future__ import annotations

import importlib
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from taskq import Campaign, CampaignSpec, Client, Seed
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.paths import ROOT

EXAMPLE = ROOT / "examples" / "active-docking"
SOME = 200
FIFTH = SOME // 5


@pytest.fixture
def learn(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Give the model's module."""
    monkeypatch.syspath_prepend(EXAMPLE)
    return importlib.import_module("learn")


@pytest.fixture
def ligands(learn: ModuleType) -> dict[str, str]:
    """Give the SMILES of some ligands of the library."""
    assert learn
    nci = importlib.import_module("nci")
    return {value.key: value.smiles for value in nci.library()[:SOME]}


def campaign_of(queue: Client, ligands: dict[str, str], **more: Any) -> Campaign:
    """Return a campaign with a task for each ligand."""
    campaign = queue.create_campaign(CampaignSpec("/c", **more))
    campaign.seed(Seed({"number": key, "smiles": smiles}, key) for key, smiles in ligands.items())
    return campaign


@pytest.mark.thorough
def test_ligands_are_docked_in_the_order_of_their_predicted_scores(
    queue: Client, hire: Hire, learn: ModuleType, ligands: dict[str, str]
) -> None:
    """Half of the best twentieth after a fifth; what is left over is cancelled."""
    nci = importlib.import_module("nci")
    scores = nci.scores()
    campaign, agent = campaign_of(queue, ligands), hire()
    order: list[str] = []

    def dock(count: int) -> None:
        agent.forget_position()
        for task in agent.claim(count):
            agent.done(task, {"score": scores[task.key]})
            order.append(task.key)

    dock(10)
    learn.steer(campaign, learn.Learner(ligands), FIFTH, lambda _: dock(5))
    assert (campaign.status().done, campaign.status().cancelled) == (FIFTH, SOME - FIFTH)
    some = {key: scores[key] for key in ligands}
    assert learn.found(order, some, best=0.05)[-1] >= 0.4


@pytest.mark.thorough
def test_agents_and_model_run_side_by_side(
    queue: Client, ligands: dict[str, str], dsn: str
) -> None:
    """As the page says, whichever is faster."""
    words = ["--campaign-file", EXAMPLE / "campaign.toml"]
    command = CommandLine(dsn)
    command.out("campaign", "create", *words)
    campaign = queue.campaign("/demo/active")
    campaign.seed(Seed({"number": key, "smiles": smiles}, key) for key, smiles in ligands.items())
    agent = ["agent", "run", "--campaign", "/demo/active", "--until-empty", "--quiet"]
    with command.process(*agent, "--path", EXAMPLE) as working:
        steering = subprocess.run(
            [sys.executable, str(EXAMPLE / "learn.py"), "/demo/active"],
            env=command.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert steering.returncode == 0, steering.stderr
        _, said = working.communicate(timeout=120)
        assert working.returncode == 0, said
    status = campaign.status()
    assert status.done >= FIFTH
    assert status.done + status.cancelled == SOME


@pytest.mark.thorough
def test_simulated_run_docks_as_many_as_it_says(learn: ModuleType, ligands: dict[str, str]) -> None:
    """It begins with what the number says, and docks none twice."""
    simulate = importlib.import_module("simulate")
    learner = learn.Learner(ligands)
    order = simulate.order(learner, 7, share=0.1)
    assert len(order) == len(set(order)) == SOME // 10
    assert simulate.order(learner, 7, share=0.1) == order != simulate.order(learner, 8, share=0.1)


def test_diverse_ligands_are_unlike_each_other(learn: ModuleType) -> None:
    """A near copy comes last."""
    smiles = {"a": "c1ccccc1O", "b": "c1ccccc1OC", "c": "CCCCCCCC(=O)O", "d": "C1CCNCC1"}
    order = list(learn.Learner(smiles).diverse(4))
    assert order[0] == "a"
    assert order[-1] == "b"


def test_order_of_results_does_not_matter(learn: ModuleType, ligands: dict[str, str]) -> None:
    """The same scores give the same predictions, whichever came first."""
    learner = learn.Learner(ligands)
    scores = {key: float(len(smiles)) for key, smiles in list(ligands.items())[::3]}
    turned = dict(reversed(scores.items()))
    assert learner.predictions(scores) == learner.predictions(turned)
    assert not learner.predictions(scores).keys() & scores.keys()
