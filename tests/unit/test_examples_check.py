"""The examples' own checks: they accept what was seen, and refuse what is wrong or incomplete."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from taskq_agent import FailForGood
from tests.helpers.paths import ROOT

EXAMPLES = ROOT / "examples"

# The best of four scores per pair, in the order of published_pairs(): a run of the campaign with
# Vina 1.2.7 and the seeds 101 to 104.
SCORES_SEEN = [
    -6.79, -9.21, -8.04, -7.29, -6.45, -8.26, -9.17, -8.68, -7.04, -7.75, -7.98, -8.70, -9.30,
    -7.30,
]  # fmt: skip


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], ModuleType]:
    """Return a function that imports `examples/FOLDER/NAME.py` as its users do."""

    def imported(folder: str, name: str) -> ModuleType:
        path = EXAMPLES / folder / f"{name}.py"
        monkeypatch.syspath_prepend(path.parent)
        spec = importlib.util.spec_from_file_location(f"examples_{folder}_{name}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look themselves up
        spec.loader.exec_module(module)
        return module

    return imported


@pytest.fixture
def docking(load: Callable[[str, str], ModuleType]) -> ModuleType:
    return load("docking", "check")


@pytest.fixture
def ising(load: Callable[[str, str], ModuleType]) -> ModuleType:
    return load("ising", "check")


def write_lines(path: Path, records: Sequence[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def docked(check: ModuleType, scores: Sequence[float]) -> list[dict[str, Any]]:
    """Return a result per pair, with the scores in turn."""
    return [
        {
            "payload": {"target": pair.target, "smiles": pair.smiles, "seed": 101},
            "result": {"score": score, "engine": "vina"},
        }
        for pair, score in zip(check.published_pairs(), scores, strict=True)
    ]


def sampled(check: ModuleType, shift: float = 0.0) -> list[dict[str, Any]]:
    """Return results of two seeds at five temperatures, off by a shift from the exact energy."""
    return [
        {
            "payload": {"temperature": temperature, "seed": seed},
            "result": {"energy": check.onsager_energy(temperature) + shift},
        }
        for temperature in (1.5, 2.0, 2.6, 3.0, 3.5)
        for seed in (1, 2)
    ]


def test_docking_scores_that_were_seen_agree_with_the_published_ones(
    docking: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A good run ends with 0 and prints all pairs, the best hit first."""
    results = write_lines(tmp_path / "results", docked(docking, SCORES_SEEN))
    assert docking.main([results]) == 0
    rows = capsys.readouterr().out.split("\n\n")[0].splitlines()[1:]
    scores = [float(row.split()[1]) for row in rows]
    assert scores == sorted(SCORES_SEEN)


@pytest.mark.parametrize("places", range(1, len(SCORES_SEEN)))
def test_shuffled_docking_scores_do_not_agree(
    docking: ModuleType, tmp_path: Path, places: int
) -> None:
    """No pair keeps its own score: rotations, because 0.3 % of random shuffles pass."""
    rotated = SCORES_SEEN[places:] + SCORES_SEEN[:places]
    assert docking.main([write_lines(tmp_path / "results", docked(docking, rotated))]) == 1


@pytest.mark.parametrize(
    ("mean_error", "close", "correlation", "holds"),
    [
        (0.6, 11, 0.7, True),
        (0.61, 14, 1.0, False),
        (0.1, 10, 1.0, False),
        (0.1, 14, 0.69, False),
        (0.1, 14, math.nan, False),
    ],
)
def test_every_docking_criterion_must_be_met(
    docking: ModuleType, mean_error: float, close: int, correlation: float, holds: bool
) -> None:
    """The criterion is at most 0.6 mean error, 11 of 14 within 1.0, and r of 0.7 at least."""
    verdict = docking.Agreement(
        pairs=14, mean_error=mean_error, close=close, correlation=correlation
    )
    assert verdict.holds is holds


def test_equal_docking_scores_do_not_agree(docking: ModuleType, tmp_path: Path) -> None:
    """Scores without any spread have no correlation, which is no error of the check."""
    assert docking.main([write_lines(tmp_path / "results", docked(docking, [-8.2] * 14))]) == 1


def test_lowest_score_of_a_pair_counts(docking: ModuleType) -> None:
    """Whatever the order in which the seeds ended."""
    for order in itertools.permutations([-7.0, -9.0, -8.0]):
        records = [record for score in order for record in docked(docking, [score] * 14)]
        assert set(docking.best_scores(records).values()) == {-9.0}


def test_missing_pair_is_refused_by_name(
    docking: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An incomplete campaign is neither agreement nor disagreement."""
    records = docked(docking, SCORES_SEEN)
    lost = records.pop(4)["payload"]
    assert docking.main([write_lines(tmp_path / "results", records)]) == 2
    assert f"{lost['target']} with {lost['smiles']}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "result", [None, {}, {"score": None}, {"score": "low"}, {"score": math.nan}]
)
def test_result_without_a_score_is_refused(docking: ModuleType, result: object) -> None:
    """No such record is passed over in silence."""
    records = [*docked(docking, SCORES_SEEN), {"payload": {"target": "X", "smiles": "C"}}]
    records[-1]["result"] = result
    with pytest.raises(docking.BadResults, match="result 15"):
        docking.best_scores(records)


@pytest.mark.parametrize("folder", ["docking", "ising"])
def test_unreadable_results_are_refused(
    load: Callable[[str, str], ModuleType],
    folder: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No file, no JSON, no object and no results at all: a message and the code 2."""
    check = load(folder, "check")
    for number, text in enumerate([b"", b"{\n", b"[]\n", b"\xff\n"]):
        results = tmp_path / str(number)
        results.write_bytes(text)
        assert check.main([str(results)]) == 2
        assert capsys.readouterr().err.startswith("check: ")
    assert check.main([str(tmp_path / "absent")]) == 2


def test_docking_tasks_are_four_per_pair_with_names_of_their_own(
    load: Callable[[str, str], ModuleType],
) -> None:
    """The names become keys: were two the same, seeding would drop a task."""
    payloads = list(load("docking", "seeds").payloads())
    assert len(payloads) == 56
    assert len({payload["name"] for payload in payloads}) == 56
    assert {payload["seed"] for payload in payloads} == {101, 102, 103, 104}
    assert len({(payload["target"], payload["smiles"]) for payload in payloads}) == 14


@pytest.mark.thorough
def test_library_holds_a_thousand_different_small_ligands(
    load: Callable[[str, str], ModuleType],
) -> None:
    """The same ones at each call: the second seeding adds nothing."""
    module = load("docking", "library")
    ligands = list(itertools.islice(module.library(), module.DEFAULT_SIZE))
    assert len(set(ligands)) == 1_000
    assert all(module.is_small(module.Chem.MolFromSmiles(smiles)) for smiles in ligands)
    assert ligands[:50] == list(itertools.islice(module.library(), 50))


@pytest.mark.parametrize(
    "smiles",
    ["C1CC", "", "CC(=O)[O-].[Na+]", "C[Se]c1ccccc1", "[Pt]", "*c1ccccc1", "[H][H]", "C" * 101],
)
def test_ligand_that_cannot_be_docked_fails_for_good(
    load: Callable[[str, str], ModuleType], smiles: str
) -> None:
    """Broken SMILES, salts, elements without an atom type: no attempt is worth repeating."""
    with pytest.raises(FailForGood, match="ligand"):
        load("docking", "ligands").pdbqt(smiles, 101)


@pytest.mark.parametrize(
    "payload",
    [
        {"smiles": "CCO", "seed": 1},
        {"target": "CDK2", "smiles": 7, "seed": 1},
        {"target": "CDK2", "smiles": "CCO"},
        {"target": "CDK2", "smiles": "CCO", "seed": 0},
        {"target": "CDK2", "smiles": "CCO", "seed": 2**31},
        {"target": "../CDK2", "smiles": "CCO", "seed": 1},
        {"target": "CDK2", "smiles": "OB(O)c1ccccc1", "seed": 1},
    ],
)
def test_docking_task_that_makes_no_sense_fails_for_good(
    load: Callable[[str, str], ModuleType], payload: dict[str, Any]
) -> None:
    """A value that is missing or out of range, an unknown target, boron, which Vina refuses."""
    handler = load("docking", "dock")
    with pytest.raises(FailForGood):
        handler.dock(payload, handler.prepare({}))


@pytest.mark.thorough
def test_program_docks_where_vina_has_no_binding(
    load: Callable[[str, str], ModuleType],
) -> None:
    """Python 3.13 has no wheel of Vina; the program that dockstring brings gives a score too."""
    ligand = load("docking", "ligands").pdbqt("CCO", 101)
    score = load("docking", "engines").VinaProgram(exhaustiveness=1).dock("CDK2", ligand, 101).score
    assert -4.0 < score < -1.0


@pytest.mark.parametrize("temperature", [0.5, 1.5, 2.0, 2.269, 2.6, 3.5, 50.0])
def test_onsager_energy_is_that_of_the_elliptic_integral(
    ising: ModuleType, temperature: float
) -> None:
    """By the midpoint rule, which converges exponentially for a periodic integrand."""
    doubled, steps = 2 / temperature, 20_000
    modulus = 2 * math.sinh(doubled) / math.cosh(doubled) ** 2
    angles = ((step + 0.5) * math.pi / 2 / steps for step in range(steps))
    integral = sum(1 / math.sqrt(1 - (modulus * math.sin(angle)) ** 2) for angle in angles)
    integral *= math.pi / 2 / steps
    factor = 2 / math.pi * (2 * math.tanh(doubled) ** 2 - 1)
    expected = -(1 + factor * integral) / math.tanh(doubled)
    assert ising.onsager_energy(temperature) == pytest.approx(expected, abs=1e-6)


def test_onsager_energy_at_the_critical_temperature(ising: ModuleType) -> None:
    """It is -sqrt(2) there, although the elliptic integral diverges."""
    energy = ising.onsager_energy(ising.CRITICAL_TEMPERATURE)
    assert energy == pytest.approx(-math.sqrt(2), abs=1e-12)


@pytest.mark.parametrize(("shift", "code"), [(0.0, 0), (0.019, 0), (0.021, 1), (-0.021, 1)])
def test_ising_energies_may_be_off_by_the_tolerance(
    ising: ModuleType, tmp_path: Path, shift: float, code: int
) -> None:
    """The tolerance is 0.02 in either direction."""
    assert ising.main([write_lines(tmp_path / "results", sampled(ising, shift))]) == code


def test_exchanged_ising_temperatures_do_not_agree(ising: ModuleType, tmp_path: Path) -> None:
    """Energies that belong to other temperatures are found out."""
    records = sampled(ising)
    energies = [record["result"] for record in records]
    for record, energy in zip(records, energies[2:] + energies[:2], strict=True):
        record["result"] = energy
    assert ising.main([write_lines(tmp_path / "results", records)]) == 1


def test_ising_energies_near_the_critical_temperature_are_not_judged(ising: ModuleType) -> None:
    """A small lattice is off there, and that is no error of the sampling."""
    assert ising.agrees({2.3: 0.0, 2.6: ising.onsager_energy(2.6)})
    assert not ising.agrees({2.3: 0.0, 2.6: 0.0})


def test_missing_ising_seed_is_refused(
    ising: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A temperature that lacks a seed of the others is named."""
    records = [
        record for record in sampled(ising) if record["payload"] != {"temperature": 2.6, "seed": 2}
    ]
    assert ising.main([write_lines(tmp_path / "results", records)]) == 2
    assert "temperature 2.6 has no result for the seeds [2]" in capsys.readouterr().err


def test_ising_sampling_gives_the_boltzmann_average(
    load: Callable[[str, str], ModuleType],
) -> None:
    """Of a lattice of nine spins, whose 512 states can be counted."""
    side, temperature, sites = 3, 3.0, range(9)
    weights, energies = [], []
    for spins in itertools.product([-1, 1], repeat=9):
        energy = -sum(spins[i] * (spins[i - 1] + spins[i - side]) for i in sites)
        weights.append(math.exp(-energy / temperature))
        energies.append(energy * weights[-1])
    exact = sum(energies) / sum(weights) / 9
    run = load("ising", "ising").run
    seen = run({"temperature": temperature, "seed": 1}, {"side": side, "sweeps": 20_000})
    assert seen["energy"] == pytest.approx(exact, abs=0.03)


def test_ising_task_gives_the_same_energy_each_time(
    load: Callable[[str, str], ModuleType],
) -> None:
    """It depends on the seed and on nothing else."""
    run = load("ising", "ising").run
    first, again, other = (
        run({"temperature": 2.6, "seed": seed}, {"side": 8, "sweeps": 20}) for seed in (1, 1, 2)
    )
    assert first == again != other


@pytest.mark.parametrize(
    "wrong",
    [{"temperature": 0}, {"temperature": math.nan}, {"temperature": "hot"}, {"seed": 0.5}],
)
def test_ising_task_that_makes_no_sense_fails_for_good(
    load: Callable[[str, str], ModuleType], wrong: dict[str, Any]
) -> None:
    """A temperature must be above zero and a seed whole."""
    payload = {"temperature": 2.0, "seed": 1, **wrong}
    with pytest.raises(FailForGood, match=next(iter(wrong))):
        load("ising", "ising").run(payload, {"side": 8, "sweeps": 1})
