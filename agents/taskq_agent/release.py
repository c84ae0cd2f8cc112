"""Name and release of the distribution that brings the agent, and how more of it is installed."""

from __future__ import annotations

import json
import shlex
from contextlib import suppress
from typing import Any, Final, Optional
from urllib.parse import unquote, urlsplit

#: The name that pip knows. What is imported is `taskq`; another project has that name on PyPI.
DISTRIBUTION: Final = "taskq-campaigns"


def release() -> str:
    """Return the release from the metadata of the installation or of the one-file agent; else "".

    `taskq.pilots.agent_file` puts the metadata into the file.
    """
    from importlib import metadata  # noqa: PLC0415  # slow to import, and seldom needed

    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return ""


def how_to_install(extra: str) -> str:
    """Return the command that adds an extra, from where this installation came from.

    A name that pip has never resolved here might be a stranger's on its index, so the command names
    the clone, the file or the address that was installed, as PEP 610 records it.
    """
    origin = _origin()
    if origin is None:
        return f"`pip install {shlex.quote(f'{DISTRIBUTION}[{extra}]')}`"
    url = str(origin.get("url", ""))
    if "dir_info" not in origin:
        vcs = origin.get("vcs_info")
        source = f"{vcs.get('vcs')}+{url}@{vcs.get('commit_id')}" if isinstance(vcs, dict) else url
        return f"`pip install {shlex.quote(f'{DISTRIBUTION}[{extra}] @ {source}')}`"
    editable = isinstance(origin["dir_info"], dict) and origin["dir_info"].get("editable")
    option = "--editable " if editable else ""
    clone = unquote(urlsplit(url).path)  # it may be elsewhere by now
    return f"`pip install {option}{shlex.quote(f'.[{extra}]')}` in the clone of taskq ({clone})"


def _origin() -> Optional[Any]:
    """Return what pip recorded about a source that was no index; None if there is no record."""
    from importlib import metadata  # noqa: PLC0415  # as above

    with suppress(metadata.PackageNotFoundError, ValueError, OSError):
        origin = json.loads(metadata.distribution(DISTRIBUTION).read_text("direct_url.json") or "")
        return origin if isinstance(origin, dict) else None
    return None
