"""A plug-in for pytest: writes down which test failed first, and at what."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

#: Where to write; set by anyone who starts the run.
VARIABLE = "TASKQ_WITNESS"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Take note of a failure; `when` it is not `setup`, a test has found something."""
    file = Path(os.environ[VARIABLE])
    if report.failed and not file.exists():
        file.write_text(json.dumps({"test": report.nodeid, "when": report.when}))
