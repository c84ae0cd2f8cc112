"""Run the model tests, and the fuzzer of a gateway, for hours: `make soak`.

Each runs ten minutes in turn, with fresh seeds.
"""

from __future__ import annotations

import argparse
import itertools
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

_INTERRUPTED = 2  # pytest's exit code
_ROUND_S = 600.0


def main() -> int:
    """Return 1 as soon as a round fails; its seed is printed."""
    parser = argparse.ArgumentParser(prog="python -m tests.property.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0)
    until = time.monotonic() + 3600 * parser.parse_args().hours
    here = Path(__file__).parent
    files = [*sorted(here.glob("test_*.py")), here.with_name("fuzz") / "test_wire.py"]
    for number, file in enumerate(itertools.cycle(files), 1):
        left_s = min(_ROUND_S, until - time.monotonic())
        if left_s <= 0:
            break
        seed = random.randrange(2**32)
        print(f"round {number}: {file} --hypothesis-seed={seed}", flush=True)
        if _round(str(file), seed, left_s) not in {0, _INTERRUPTED}:
            return 1
    print("nothing was found")
    return 0


def _round(file: str, seed: int, left_s: float) -> int:
    """Run a file's tests, at most for so long; return the exit code of pytest."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "--log-cli-level=INFO", file]
    command += ["--hypothesis-profile=soak", f"--hypothesis-seed={seed}"]
    command += ["-o", "faulthandler_timeout=0"]  # a round takes longer than any test may
    with subprocess.Popen(command) as tests:
        try:
            return tests.wait(left_s)
        except subprocess.TimeoutExpired:
            tests.send_signal(signal.SIGINT)
            return tests.wait()


if __name__ == "__main__":
    sys.exit(main())
