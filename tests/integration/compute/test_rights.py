"""Who may have agents unpickle something: a right of its own, and a seal for arguments."""

from __future__ import annotations

import base64
import json
import os
import pickle
import secrets
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import taskq
from taskq import CampaignSpec, Client, Handler
from taskq.files.blobs import open_blobs
from taskq.model.errors import Forbidden
from taskq_agent.handlers import RunnerSettings, calls, make_runner
from taskq_agent.handlers.resident import ARCHIVE
from taskq_agent.protocol import CampaignTerms, Task
from taskq_agent.try_command import LocalBlobs
from tests.fixtures.logins import Staff
from tests.payloads import called


@pytest.mark.thorough
def test_only_picklers_send_functions_by_value(staff: Staff) -> None:
    """A submitter sends names of functions; with the role, and as the owner, functions."""
    path = f"/{secrets.token_hex(6)}"
    submitter = staff.login("submitter")
    with taskq.connect(submitter.dsn) as queue:
        queue.map(called.square, [1], name=f"{path}/name")
        with pytest.raises(Forbidden, match="taskq db grant pickler"):
            queue.map(lambda x: x, [1], name=f"{path}/value")
        spec = queue.campaign(f"{path}/name").spec()
        archived = Handler("function", name="x", archive="0" * 64)
        with pytest.raises(Forbidden, match="unpickle"):
            queue.create_campaign(CampaignSpec(f"{path}/other", handler=archived))
        with pytest.raises(Forbidden, match="unpickle"):
            queue.campaign(f"{path}/name").change(CampaignSpec(f"{path}/name", handler=archived))
        assert queue.campaign(f"{path}/name").spec() == spec
        with pytest.raises(Forbidden):
            taskq.Executor(queue)
    with taskq.connect(staff.login("pickler").dsn) as queue:
        run = queue.map(lambda x: x, [1], name=f"{path}/value")
        assert run.status().waiting == 1
    with taskq.connect(submitter.dsn) as queue:  # who may change all but the function
        campaign = queue.campaign(f"{path}/value")
        campaign.change(replace(campaign.spec(), weight=2.0))
        assert campaign.spec().weight == 2.0
        handler = campaign.spec().handler
        assert handler is not None
        with pytest.raises(Forbidden, match="unpickle"):
            campaign.change(replace(campaign.spec(), handler=replace(handler, archive="0" * 64)))


class Bomb:
    """What somebody without the right wants an agent to read."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.file),)


@pytest.fixture
def terms(queue: Client, tmp_path: Path) -> tuple[CampaignTerms, LocalBlobs]:
    """Give the terms of a sealed campaign as an agent gets them, and where its inputs are."""
    run = queue.map(lambda x: x, [1], name="/sealed")
    row = queue.database.row("campaign", path="/sealed")
    assert row is not None
    archive = tmp_path / ARCHIVE
    digest = row["inputs"][ARCHIVE]["digest"]
    archive.write_bytes(b"".join(open_blobs(queue.database).read(digest)))
    blobs = LocalBlobs()
    terms = CampaignTerms(1, 1, run.path, row["settings"]["handler"], {}, 60.0)
    return terms, blobs


def run_task(
    terms: CampaignTerms, blobs: LocalBlobs, archive: Path, payload: dict[str, Any], folder: Path
) -> Any:
    """Run a payload as an agent does."""
    settings = RunnerSettings(cache_dir=folder / "cache", scratch_root=folder)
    runner = make_runner(0, settings, blobs)
    try:
        given = replace(terms, inputs=blobs.inputs({ARCHIVE: archive}))
        return runner.run(Task(1, 1, 1, "k", 1, "", payload), given)
    finally:
        runner.close()


@pytest.mark.thorough
def test_argument_without_the_seal_is_not_read(
    terms: tuple[CampaignTerms, LocalBlobs], tmp_path: Path
) -> None:
    """Anyone who adds tasks, by a manager's token say, cannot make one; with it, it is read."""
    settings, blobs = terms
    bomb = tmp_path / "boom"
    text = base64.b64encode(pickle.dumps(Bomb(bomb))).decode()
    for seal in ("", "0" * 64, calls.sealed(b"guessed", text)):
        payload = {"args": [{"$pickle": [text, seal]}]}
        ended = run_task(settings, blobs, tmp_path / ARCHIVE, payload, tmp_path)
        assert (ended.outcome, ended.error_class) == ("failed", "ValueError")
        assert "without the campaign's seal" in ended.error
        assert not bomb.exists()
    key = bytes.fromhex(settings.handler["seal"])
    payload = {"args": [{"$pickle": [text, calls.sealed(key, text)]}]}
    assert run_task(settings, blobs, tmp_path / ARCHIVE, payload, tmp_path).outcome == "done"
    assert bomb.exists()


def test_archive_that_is_not_the_handlers_is_not_read(
    terms: tuple[CampaignTerms, LocalBlobs], tmp_path: Path
) -> None:
    """Who may replace inputs, but not send functions, cannot replace the function."""
    settings, blobs = terms
    bomb = tmp_path / "boom"
    with zipfile.ZipFile(tmp_path / ARCHIVE, "a") as archive:
        archive.writestr("extra", pickle.dumps(Bomb(bomb)))
    ended = run_task(settings, blobs, tmp_path / ARCHIVE, {"args": [1]}, tmp_path)
    assert (ended.refused, ended.error_class) == (True, "prepare-failed")
    assert "it is not unpickled" in ended.error


def test_code_of_another_python_is_refused_before_it_is_read(
    terms: tuple[CampaignTerms, LocalBlobs], tmp_path: Path
) -> None:
    """The error names both versions and what to do."""
    settings, blobs = terms
    old = replace(settings, handler={**settings.handler, "python": "3.8"})
    ended = run_task(old, blobs, tmp_path / ARCHIVE, {"args": [1]}, tmp_path)
    assert (ended.refused, ended.error_class) == (True, "prepare-failed")
    assert "sent by Python 3.8" in ended.error


def test_function_by_name_reads_no_pickles(tmp_path: Path) -> None:
    """Whatever seal they have."""
    text = base64.b64encode(pickle.dumps(1)).decode()
    handler = {"kind": "function", "target": "builtins:abs", "name": "abs"}
    blobs = LocalBlobs()
    runner = make_runner(0, RunnerSettings(cache_dir=tmp_path, scratch_root=tmp_path), blobs)
    payload = {"args": [{"$pickle": [text, calls.sealed(b"", text)]}]}
    ended = runner.run(
        Task(1, 1, 1, "k", 1, "", payload), CampaignTerms(1, 1, "/c", handler, {}, 60.0)
    )
    runner.close()
    assert ended.outcome == "failed"
    assert json.dumps(ended.result)
    assert "called by name" in str(ended.error)
