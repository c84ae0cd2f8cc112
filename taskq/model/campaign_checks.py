"""Checks of single settings of a campaign; each returns the value to keep, or raises."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final

from taskq.model.errors import InvalidCampaign
from taskq.model.seed import check_path
from taskq.model.table_checks import check_string
from taskq_agent.required import MAX_REQUIRED, required, texts
from taskq_agent.units import time_s

MAX_DESCRIPTION_CHARS: Final = 10_000
MAX_NEVER_RETRY: Final = 100
MAX_CLASS_CHARS: Final = 200
MAX_NAMED_LIMITS: Final = 8
#: Seconds, an hour and a hundred years.
_LEAST_KEEP_S: Final = 3_600
_MOST_KEEP_S: Final = 3_153_600_000
_FILE_CHARS: Final = 200

#: The name of a limit of the queue, as the database checks it.
_LIMIT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,49}")
_BEST: Final = re.compile(r"(?:lowest|highest) (?:result|payload|phases)\.\S.{0,199}")


def checked_path(where: str, path: object) -> str:
    """Return the path of a campaign."""
    return check_path(check_string(where, path))


def checked_description(where: str, text: object) -> str:
    """Return a description of bounded length."""
    description = check_string(where, text)
    if len(description) > MAX_DESCRIPTION_CHARS:
        raise InvalidCampaign(
            f"{where} of {len(description)} characters; {MAX_DESCRIPTION_CHARS} at most"
        )
    return description


def checked_best(where: str, value: object) -> str | None:
    """Return what makes a result the best, such as `lowest result.score`; None if nothing does."""
    if value is None or (isinstance(value, str) and _BEST.fullmatch(value)):
        return value
    raise InvalidCampaign(
        f"{where} must be `lowest FIELD` or `highest FIELD`, such as `lowest result.score`, "
        f"not {value!r:.80}"
    )


def checked_require(where: str, value: object) -> tuple[str, ...]:
    """Return what a result must have, each as text, such as `score number <= 0`."""
    try:
        given = texts(value)
        for text in given:
            required(check_string(where, text))
    except ValueError as error:
        raise InvalidCampaign(f"{where}: {error}") from None
    return given


def checked_files(where: str, value: object) -> tuple[str, ...]:
    """Return names of output files that must exist, each once."""
    if not isinstance(value, (list, tuple)) or len(value) > MAX_REQUIRED:
        raise InvalidCampaign(
            f'{where} must be a list of {MAX_REQUIRED} names at most, such as ["poses.pdbqt"], not '
            f"{value!r:.80}"
        )
    for name in value:
        check_string(where, name)
        if not 1 <= len(name) <= _FILE_CHARS or not {"", ".", ".."}.isdisjoint(name.split("/")):
            raise InvalidCampaign(
                f"{where}: {name!r:.80} is no name of a file in the folder of output files"
            )
    return tuple(dict.fromkeys(value))


def checked_classes(where: str, value: object) -> tuple[str, ...]:
    """Return classes of errors, each once."""
    if not isinstance(value, (list, tuple)) or len(value) > MAX_NEVER_RETRY:
        raise InvalidCampaign(
            f"{where} must be a list of {MAX_NEVER_RETRY} classes of error at most, "
            f'such as ["bad-ligand"], not {value!r:.80}'
        )
    for position, name in enumerate(value):
        check_string(f"{where}[{position}]", name)
        if not 1 <= len(name) <= MAX_CLASS_CHARS:
            raise InvalidCampaign(
                f"{where}[{position}] must have 1 to {MAX_CLASS_CHARS} characters"
            )
    return tuple(dict.fromkeys(value))


def checked_limits(where: str, value: object) -> tuple[str, ...]:
    """Return names of limits of the queue, each once, in order."""
    if not isinstance(value, (list, tuple)) or len(value) > MAX_NAMED_LIMITS:
        raise InvalidCampaign(
            f"{where} must be a list of {MAX_NAMED_LIMITS} names of limits at most, "
            f'such as ["oechem"], not {value!r:.80}'
        )
    for position, name in enumerate(value):
        if _LIMIT.fullmatch(check_string(f"{where}[{position}]", name)) is None:
            raise InvalidCampaign(
                f"{where}[{position}] must have 1 to 50 letters, digits, dots, dashes and "
                f"underscores, such as oechem, not {name!r:.80}"
            )
    return tuple(sorted(set(value)))


def checked_keep(where: str, value: object) -> float | None:
    """Return a time to keep in seconds, given as such or as `90d`; raise `InvalidCampaign`."""
    if value is None:
        return None
    with suppress(ValueError):
        seconds = time_s(value) if isinstance(value, str) else value
        if (
            isinstance(seconds, (int, float))
            and not isinstance(seconds, bool)
            and _LEAST_KEEP_S <= seconds <= _MOST_KEEP_S
        ):
            return float(seconds)
    raise InvalidCampaign(
        f"{where} must be a time from 1h to 36500d, such as 90d, not {value!r:.80}"
    )
