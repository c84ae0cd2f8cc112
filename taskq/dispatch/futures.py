"""Futures that callbacks resolve, and that may have been given up meanwhile."""

from __future__ import annotations

import asyncio
from typing import TypeVar

T = TypeVar("T")


def resolve(future: asyncio.Future[T], outcome: T | Exception) -> None:
    """Set the result or the exception of a future, unless it is done: nobody waits any more."""
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
