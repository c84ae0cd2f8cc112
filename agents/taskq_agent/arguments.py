"""What the arguments of `taskq-agent` may be."""

from __future__ import annotations

import argparse
import json
import math
import shlex
from pathlib import Path
from typing import Any, Dict, List

from taskq_agent.gateways import parsed


def json_object(text: str) -> Dict[str, Any]:
    """Return the JSON object in `text`, or in the file that it names."""
    try:
        value = json.loads(text if text.lstrip().startswith("{") else Path(text).read_bytes())
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{text}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text}: not a JSON object")
    return value


def seconds(text: str) -> float:
    """Return a time above 0."""
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: must be above 0")
    return value


def amount(text: str) -> float:
    """Return a time or size of 0 or more."""
    value = float(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: must be 0 or more")
    return value


def folder(text: str) -> Path:
    """Return an absolute path: children are started elsewhere."""
    return Path(text).absolute()


def existing_folder(text: str) -> str:
    """Return the absolute path of a folder that is there."""
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text}: no such folder")
    return str(Path(text).absolute())


def gateway(text: str) -> str:
    """Return a URL that may be a gateway's; whether `http` will do is seen later."""
    try:
        parsed(text, insecure=True)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def campaign(text: str) -> str:
    """Return the path of a campaign."""
    if not text.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text}: a campaign's path begins with /")
    return text


def command(text: str) -> List[str]:
    """Return the words of a command line, quoted as for a shell, which none will see."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from None
    if not words:
        raise argparse.ArgumentTypeError("the command is empty")
    return words
