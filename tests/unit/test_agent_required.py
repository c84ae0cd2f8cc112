"""What a result must have: one judgement, over any result, and in each way that results take."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq.model.campaign_spec import CampaignSpec
from taskq_agent.protocol import DONE, FAILED, RESULT_INCOMPLETE
from taskq_agent.required import KINDS, lacking, required, texts, value_at
from taskq_agent.try_command import LocalBlobs
from tests.helpers.slot_harness import python, shell, slot_in

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text("ab.", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.text("ab.", min_size=1, max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
RESULTS = st.dictionaries(st.text("ab.", min_size=1, max_size=3), JSON, max_size=3)
NAMES = st.text("ab.", min_size=1, max_size=5)
KIND_OF = {
    bool: "boolean",
    int: "number",
    float: "number",
    str: "text",
    list: "list",
    dict: "object",
}


@given(RESULTS, NAMES, st.sampled_from(KINDS))
def test_result_lacks_a_value_exactly_if_it_has_none_of_the_kind(
    result: Mapping[str, Any], name: str, kind: str
) -> None:
    value = value_at(result, name)
    assert (lacking(result, {}, [name], []) == "") == (value is not None)
    fault = lacking(result, {}, [f"{name} {kind}"], [])
    assert (fault == "") == (KIND_OF.get(type(value)) == kind)
    assert not fault or name in fault


@given(st.floats(-9, 9), st.integers(-9, 9), st.integers(-9, 9))
def test_number_is_complete_exactly_within_its_bounds(value: float, least: int, most: int) -> None:
    least, most = sorted((least, most))
    text = f"a >= {least} <= {most}"
    assert (lacking({"a": value}, {}, [text], []) == "") == (least <= value <= most)
    assert lacking({"a": str(value)}, {}, [text], []) != "", "text is no number"
    assert lacking({"a": True}, {}, [text], []) != "", "true is no number"


@given(st.dictionaries(st.sampled_from("xyz"), st.integers(0, 2)))
def test_file_is_missing_unless_it_is_there_and_not_empty(files: dict[str, int]) -> None:
    fault = lacking({}, files, [], ["x", "y"])
    assert (fault == "") == (files.get("x", 0) > 0 and files.get("y", 0) > 0)


def test_table_says_the_same_as_text() -> None:
    table = {"name": "score", "kind": "number", "min": -50, "max": 0.5}
    assert texts(["score number >= -50 <= 0.5", table]) == ("score number >= -50 <= 0.5",)
    found = required(texts([table])[0])
    assert (found.name, found.kind, found.least, found.most) == ("score", "number", -50.0, 0.5)
    spec = CampaignSpec.from_json({"path": "/c", "results": {"require": ["a", table]}})
    assert spec.require == ("a", "score number >= -50 <= 0.5")


SCORE, POSE = ("score number <= 0",), ("pose.energy",)
#: A program's large result.
LARGE = """
import json, os
whole = {"score": SCORE, "all": ["x" * 1000] * 1000}
open(os.environ["TASKQ_RESULT"], "w").write(json.dumps(whole))
"""


def large(score: object) -> dict[str, Any]:
    script = LARGE.replace("SCORE", repr(score)).replace("{", "{{").replace("}", "}}")
    return {"kind": "command", "argv": [sys.executable, "-c", script]}


@pytest.mark.parametrize(
    ("handler", "require", "fault"),
    [
        (shell("echo '{\"score\": -8.5}'"), SCORE, ""),
        (shell("echo '{\"score\": null}'"), SCORE, "score is null"),
        (shell("echo '{\"score\": -8.5'"), SCORE, "score is missing"),
        (shell("true"), SCORE, "score is missing"),
        (shell("echo '{\"score\": 3}'"), SCORE, "score is 3, above 0"),
        (shell('echo \'{"score": "nan"}\''), SCORE, "score is 'nan', which is no number"),
        (shell('echo \'{"pose": {"energy": 1}}\''), POSE, ""),
        (shell("echo '{\"pose\": 1}'"), POSE, "pose.energy is missing"),
        (python("nothing"), SCORE, "score is missing"),
        (large(-1), SCORE, ""),
        (large("x"), SCORE, "score is 'x', which is no number"),
    ],
)
def test_result_without_what_is_required_fails_and_is_kept(
    tmp_path: Path, handler: dict[str, Any], require: tuple[str, ...], fault: str
) -> None:
    """Of programs and resident processes; also a large one, whose blob is stored."""
    blobs = LocalBlobs()
    with slot_in(tmp_path, grace_s=1, blobs=blobs) as slot:
        ended = slot.run(handler, resources={"require": require})
    if not fault:
        assert ended.outcome == DONE
        return
    assert (ended.outcome, ended.error_class, ended.retry) == (FAILED, RESULT_INCOMPLETE, True)
    assert ended.error == f"the result is not complete: {fault}"
    assert ended.result is not None
    assert ended.large is None


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ("echo 1 > $TASKQ_OUT/pose", ""),
        ("true", "the file pose is missing"),
        (": > $TASKQ_OUT/pose; echo 1 > $TASKQ_OUT/other", "the file pose is empty"),
    ],
)
def test_archive_without_a_required_file_is_not_kept(
    tmp_path: Path, script: str, fault: str
) -> None:
    blobs = LocalBlobs()
    with slot_in(tmp_path, grace_s=1, blobs=blobs) as slot:
        files = {"require_files": ("pose",)}
        ended = slot.run(shell(script), output_bytes=100_000, resources=files)
    assert (ended.outcome == DONE) == (not fault)
    assert bool(blobs.outputs) == (not fault)
    assert (ended.error or "").endswith(fault)
