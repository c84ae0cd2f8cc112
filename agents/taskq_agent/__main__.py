"""The command `taskq-agent`."""

from __future__ import annotations

import sys

from taskq_agent.import_path import put_own_first

put_own_first()

from taskq_agent.main import main  # noqa: E402 - from here on modules are Python's own

if __name__ == "__main__":
    sys.exit(main())
