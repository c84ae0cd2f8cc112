"""Log of the gateway: a line for each event, as text or as JSON."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Final

log: Final = logging.getLogger("taskq.gateway")

_PLAIN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class JsonFormatter(logging.Formatter):
    """Writes a record as one JSON object: time, level, logger, event, and the `extra` fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line of JSON."""
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "at": f"{at}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        line |= {name: it for name, it in vars(record).items() if name not in _PLAIN}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_json_to_stderr(level: int) -> None:
    """Write everything that is logged as JSON, one object a line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
