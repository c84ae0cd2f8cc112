"""The examples of batch docking find each planted ligand, by what programs are recorded to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskq import Client
from tests.helpers.command_line import CommandLine
from tests.helpers.docking import Docking
from tests.helpers.waiting import wait_until

#: What each program does of itself with a ligand that it cannot dock.
SAYS = {
    "unidock": {"skip": "Uni-Dock has left no pose of this ligand"},
    "autodock_gpu": {"skip": "Error in setup of Job #"},
    "gnina": {
        "skip": "Parse error with molecule",
        "unreadable": "gnina has read no further than this ligand",
    },
}


@pytest.mark.thorough
@pytest.mark.parametrize("program", SAYS)
def test_each_planted_ligand_is_named_and_all_others_are_docked(
    queue: Client, taskq: CommandLine, tmp_path: Path, program: str
) -> None:
    """Files that are torn when the program dies are no poses."""
    docking = Docking(queue, taskq, tmp_path, program)
    taskq.out("campaign", "change", docking.path, "--max-attempts", "1")
    names = [f"L{'x' * (n % 5)}{n}" for n in range(30)]
    says = SAYS[program]
    odd = dict(zip(names[3::6], [*says, "SIGSEGV", "exit"], strict=False))
    docking.seed(names)
    docking.run(odd)
    classes = {"SIGSEGV": "signal-SIGSEGV", "exit": "exit-1"}
    for name, end in docking.ends(names).items():
        if name in odd:
            assert end.error_class == classes.get(odd[name], "bad-ligand"), (name, end)
            assert says.get(odd[name], "") in (end.error or "")
        else:
            assert end.result is not None, (name, end)
            assert end.result["score"] == -len(name)
    status = docking.campaign.status()
    assert (status.done, status.failed) == (len(names) - len(odd), len(odd))
    taskq.out("fetch", docking.path, names[0], "--to", tmp_path / "poses")
    (pose,) = (tmp_path / "poses").rglob("pose.*")
    assert "C" in pose.read_text()


#: What ligands do among two thousand, and the class as which each fails. Uni-Dock does not say what
#: has begun, so an endless loop there costs a silence for each step of the search.
PLANTED = {
    "L17": ("SIGSEGV", "signal-SIGSEGV"),
    "L1234": ("exit", "exit-1"),
    "L1999": ("memory", "out-of-memory"),
    "L0": ("skip", "bad-ligand"),
}
ENDLESS = {"L600": ("hang", "time-limit")}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("program", "planted"), [("autodock_gpu", PLANTED | ENDLESS), ("unidock", PLANTED)]
)
def test_planted_ligands_among_two_thousand_are_named_and_all_others_are_docked(
    queue: Client,
    taskq: CommandLine,
    tmp_path: Path,
    program: str,
    planted: dict[str, tuple[str, str]],
) -> None:
    docking = Docking(queue, taskq, tmp_path, program)
    words = ["--max-attempts", "1", "--memory", "200M", "--time-limit", "40s"]
    taskq.out("campaign", "change", docking.path, *words)
    names = [f"L{n}" for n in range(2_000)]
    docking.seed(names)
    docking.run({name: what for name, (what, _) in planted.items()})
    failed = {
        failure.key: docking.campaign.attempts(failure.key)[-1].error_class
        for failure in docking.campaign.failures()
    }
    assert failed == {name: error_class for name, (_, error_class) in planted.items()}
    assert docking.campaign.status().done == len(names) - len(planted)


@pytest.mark.parametrize(
    ("program", "lines", "why"),
    [
        ("autodock_gpu", "echo No CUDA-capable devices found, exiting.; exit 255", "no GPU"),
        ("unidock", "exit 0  # as where the memory of the GPU is too small", "no ligand is docked"),
    ],
)
def test_program_that_docks_nothing_on_a_node_leaves_the_ligands_to_others(
    queue: Client, taskq: CommandLine, tmp_path: Path, program: str, lines: str, why: str
) -> None:
    """No ligand is charged for that, and no start is divided."""
    docking = Docking(queue, taskq, tmp_path, program)
    docking.seed([f"L{n}" for n in range(12)])
    docking.install(lines)

    def refused() -> str:
        reasons = docking.campaign.explain().reasons
        return next((reason.text for reason in reasons if reason.code == "refused"), "")

    with docking.agent():
        wait_until(refused, timeout_s=120)
    assert "exit-69" in refused()
    assert docking.campaign.status().failures == 0
    (cause,) = docking.campaign.failure_causes()
    assert why in f"{cause.example_error} {cause.example_line}"
