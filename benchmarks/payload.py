"""What real agents of a benchmark run: a list of payloads takes a moment for each."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

TAKES_S: Final = 0.01


def scored(payloads: Sequence[Any], _: Any) -> Iterator[dict[str, float]]:
    """Yield a result for each payload."""
    for _payload in payloads:
        time.sleep(TAKES_S)
        yield {"score": -9.1}
