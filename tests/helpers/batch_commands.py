"""Commands of a real batch system."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence


def run_command(
    words: Sequence[object], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command, whatever becomes of it."""
    return subprocess.run(
        [str(word) for word in words],
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
