"""Marking of parameters: `make test` runs the first, `make test-all` the others too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

_Param = type(pytest.param())


def rest_thorough(cases: Iterable[Any], quick: int = 1) -> list[Any]:
    """Return the cases of a parametrized test, all but the first `quick` marked as thorough.

    The first ones should stand for the promise. A tuple has the values of several arguments.
    """
    return [case if number < quick else _thorough(case) for number, case in enumerate(cases)]


def _thorough(case: Any) -> Any:
    marks = pytest.mark.thorough
    if isinstance(case, _Param):
        return pytest.param(*case.values, marks=(*case.marks, marks), id=case.id)
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=marks)
