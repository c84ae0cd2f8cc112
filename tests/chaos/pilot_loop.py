"""The loop of pilots with shorter terms: `python -m tests.chaos.pilot_loop pilots run`.

As they are, minutes would pass before another loop acts for one that was killed, and more before a
job is given up that this one had written down and not submitted. Their order is as it is.
"""

from __future__ import annotations

import sys

from taskq.pilots import loop, reconcile
from taskq_cli.main import main

if __name__ == "__main__":
    loop.TERM_S = 3.0  # type: ignore[misc]
    reconcile.NEVER_CAME_S, reconcile.MISSING_S = 15.0, 5.0  # type: ignore[misc]
    reconcile.FIRST_RETRY_S, reconcile.LAST_RETRY_S = 1.0, 2.0  # type: ignore[misc]
    sys.exit(main())
