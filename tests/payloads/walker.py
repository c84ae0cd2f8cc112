"""Payload code that walks a number of steps, keeps a checkpoint after each, and writes all down.

Arguments: how many steps, the seconds of each, and after how many it asks for another attempt,
which goes on where this one ended.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from pathlib import Path

from tests.chaos.history import Writer

EX_CONTINUE = 85


def main() -> int:
    """Walk from the checkpoint on."""
    steps, pace_s, leg = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    execution, key = secrets.token_hex(8), os.environ["TASKQ_KEY"]
    kept = Path(os.environ["TASKQ_CHECKPOINT"]) / "kept"
    words = kept.read_text().split() if kept.exists() else ["kept", "", "0"]
    history = Writer(os.environ["CHAOS_HISTORY"], f"execution-{execution}")
    history.note(
        "began",
        execution=execution,
        agent=os.environ["CHAOS_AGENT"],
        key=key,
        attempt=int(os.environ["TASKQ_ATTEMPT"]),
    )
    first = step = int(words[2])
    history.note("restored", execution=execution, kept_by=words[1], step=step)
    while step < steps:
        time.sleep(pace_s)
        step += 1
        history.note("kept", execution=execution, step=step)
        unfinished = Path(os.environ["TASKQ_SCRATCH"]) / "unfinished"
        unfinished.write_text(f"kept {execution} {step}\n")
        unfinished.replace(kept)
        if step - first == leg and step < steps:
            return EX_CONTINUE
    history.note("ended", execution=execution, outcome="done")
    sys.stdout.write(json.dumps({"execution": execution}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
