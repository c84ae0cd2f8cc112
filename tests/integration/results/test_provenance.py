"""RO-Crates of results: what made them, as other programs read it."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rocrate.rocrate import ROCrate

from taskq import Campaign, CampaignSpec, Client, Handler
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine

IMAGE = f"docker://docker.io/dock:1.2@sha256:{'ab' * 32}"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"


@pytest.fixture
def taskq(dsn: str) -> CommandLine:
    """Give the command line of this queue."""
    return CommandLine(dsn)


@pytest.fixture
def dock(queue: Client, hire: Hire, tmp_path: Path) -> Campaign:
    """Give results of two recipes, between which an input was replaced, and of an old agent."""
    handler = Handler("command", argv=("dock", "{smiles}"), container=IMAGE)
    params = {"grid": 1, "box": [1, 2]}
    campaign = queue.create_campaign(CampaignSpec("/c", handler=handler, params=params))
    receptor = tmp_path / "receptor.pdbqt"
    receptor.write_text("first")
    campaign.add_input(receptor)
    campaign.seed({"smiles": "C" * n} for n in range(1, 5))
    new, old = hire(), hire(speaks=False)
    tasks = [*new.claim_singly(3), *old.claim(1)]
    assert new.done(tasks[0], {"score": 0}) == "accepted"
    receptor.write_text("second")
    campaign.add_input(receptor)
    campaign.change(replace(campaign.spec(), handler=Handler("command", argv=("dock2",))))
    assert new.report(tasks[1], "done", result={"score": 1}, recipe=3) == "accepted"
    assert new.report(tasks[2], "done", result={"score": 2}, recipe=3) == "accepted"
    assert old.done(tasks[3], {"score": 3}) == "accepted"
    return campaign


def crate_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the entities of a crate by their ids."""
    text = json.loads((folder / "ro-crate-metadata.json").read_text())
    entities = {entity["@id"]: entity for entity in text["@graph"]}
    assert len(entities) == len(text["@graph"])
    return entities


def references(value: Any) -> list[str]:
    """Return all ids that a value refers to."""
    if isinstance(value, dict):
        found = [value["@id"]] if value.keys() == {"@id"} else []
        return found + [reference for part in value.values() for reference in references(part)]
    return (
        [reference for part in value for reference in references(part)]
        if isinstance(value, list)
        else []
    )


def test_crate_has_an_action_for_each_recipe_that_made_results(
    dock: Campaign, taskq: CommandLine, tmp_path: Path
) -> None:
    """With the input as it was then, by its digest, and the results that it made."""
    to = tmp_path / "crate"
    taskq.out("export", dock.path, "--to", to, "--provenance", "-o", "csv")
    crate = crate_of(to)
    actions = [crate[mention["@id"]] for mention in crate["./"]["mentions"]]
    assert [action["name"] for action in actions] == [
        "Run of unknown recipe of /c",
        "Run of recipe 1 of /c",
        "Run of recipe 3 of /c",
    ]
    assert [action["description"].split()[0] for action in actions] == ["1", "1", "2"]
    objects = [{crate[it["@id"]]["name"]: crate[it["@id"]] for it in a["object"]} for a in actions]
    assert objects[0] == {}
    for inputs, content in zip(objects[1:], ("first", "second"), strict=True):
        digest = hashlib.sha256(content.encode()).hexdigest()
        assert inputs["receptor.pdbqt"]["sha256"] == digest
        assert inputs["receptor.pdbqt"]["@id"] == f"hash://sha256/{digest}"
        assert (inputs["grid"]["value"], inputs["box"]["value"]) == (1, "[1, 2]")
    assert [crate[a["instrument"]["@id"]]["name"] for a in actions[1:]] == [
        "dock {smiles}",
        "dock2",
    ]
    assert crate[actions[1]["containerImage"]["@id"]]["sha256"] == "ab" * 32
    rows = [*csv.DictReader(io.StringIO((to / "results.csv").read_text()))]
    assert [row["recipe"] for row in rows] == ["1", "3", "3", ""]


def test_crate_follows_the_rules_of_ro_crate(
    dock: Campaign, taskq: CommandLine, tmp_path: Path
) -> None:
    """Every reference is described, every file is there, and is what its description says."""
    to = tmp_path / "crate"
    taskq.out("export", dock.path, "--to", to, "--provenance", "--where", "recipe = 3")
    crate = crate_of(to)
    descriptor, root = crate["ro-crate-metadata.json"], crate["./"]
    assert descriptor["@type"] == "CreativeWork"
    assert descriptor["about"] == {"@id": "./"}
    assert descriptor["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
    assert root["@type"] == "Dataset"
    assert root["conformsTo"] == {"@id": PROFILE}
    assert {"name", "description", "datePublished", "license"} <= root.keys()
    known = {*crate, "https://w3id.org/ro/crate/1.1"}
    terms = "https://w3id.org/ro/terms/workflow-run#"
    used = {reference for entity in crate.values() for reference in references([*entity.values()])}
    assert {name for name in used if not name.startswith(terms)} <= known
    files = [entity for entity in crate.values() if entity["@type"] == "File"]
    assert {file["@id"] for file in files} == {part["@id"] for part in root["hasPart"]}
    written = {str(path.relative_to(to)) for path in to.rglob("*") if path.is_file()}
    assert written == {"ro-crate-metadata.json", "results.jsonl", "recipes/1.json"}
    for file in files:
        if "://" not in file["@id"]:
            content = (to / file["@id"]).read_bytes()
            assert file["contentSize"] == str(len(content))
            assert file["sha256"] == hashlib.sha256(content).hexdigest()
    for action in (crate[mention["@id"]] for mention in root["mentions"]):
        assert action["@type"] == "CreateAction"
        assert {"instrument", "object", "result", "startTime", "endTime"} <= action.keys()
        assert action["startTime"] <= action["endTime"]


def test_library_of_ro_crate_reads_what_was_written(
    dock: Campaign, taskq: CommandLine, tmp_path: Path
) -> None:
    """Its actions with their instruments, and its files."""
    to = tmp_path / "crate"
    taskq.out("export", dock.path, "--to", to, "--provenance")
    crate = ROCrate(to)
    actions = crate.root_dataset["mentions"]
    assert {action["name"] for action in actions} == {
        f"Run of {which} of /c" for which in ("unknown recipe", "recipe 1", "recipe 3")
    }
    assert {action["instrument"].type for action in actions} == {"SoftwareApplication"}
    assert crate.root_dataset["conformsTo"].id == PROFILE
    assert {action["result"].id for action in actions} == {"results.jsonl"}


def test_folder_appears_only_when_it_is_complete(
    dock: Campaign, taskq: CommandLine, tmp_path: Path
) -> None:
    """Without results, and with options for a stream, nothing is written."""
    to = tmp_path / "crate"
    ended = taskq("export", dock.path, "--to", to, "--provenance", "--where", "recipe = 9")
    assert "nothing to describe" in ended.stderr
    for words in (["--to", "-"], ["--to", to, "--split", "rows=9"], ["--to", to, "--cursor", "x"]):
        assert (
            "--provenance writes a folder" in taskq("export", "/c", "--provenance", *words).stderr
        )
    assert [*tmp_path.iterdir()] == [tmp_path / "receptor.pdbqt"]
