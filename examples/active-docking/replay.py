"""The handler: gives the score that Vina has found before, after the time that a docking takes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from nci import scores

from taskq_agent import FailForGood


def prepare(params: Mapping[str, Any]) -> tuple[dict[str, float], float]:
    """Read the scores."""
    return scores(), float(params["seconds"])


def dock(payload: Mapping[str, Any], shared: tuple[dict[str, float], float]) -> dict[str, float]:
    """Return the score of a ligand."""
    known, seconds = shared
    time.sleep(seconds)
    if payload.get("number") not in known:
        raise FailForGood(f"there is no score of {payload!r:.100}")
    return {"score": known[payload["number"]]}
