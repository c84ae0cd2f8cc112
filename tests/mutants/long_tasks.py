"""Bugs in what becomes of tasks that outlast their agents: checkpoints, too-long."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

LONG_TASKS: Final = (
    Mutant(
        "checkpoint-without-lease",
        "sql/functions/files/save_checkpoint.sql",
        "       and t.lease_id = p_lease\n",
        "",
        "A late attempt overwrites the checkpoint of a newer one.",
        ("tests/integration/files/test_checkpoints.py",),
    ),
    Mutant(
        "progress-by-the-same-checkpoint",
        "sql/functions/files/save_checkpoint.sql",
        "        replaced := null;\n        return;\n",
        "        replaced := null;\n",
        "An attempt that saves what it was given has made progress, for ever.",
        ("tests/integration/files/test_checkpoints.py",),
    ),
    Mutant(
        "out-of-time-for-ever",
        "sql/functions/reports/too_long.sql",
        "+ 1 < v_most",
        "< v_most",
        "A task gets an attempt more than its campaign allows before it is too long.",
        ("tests/integration/attempts/test_too_long.py",),
    ),
)
