"""Inputs of a campaign: files that all its tasks need, now and in its recipes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from taskq.campaign import recipes
from taskq.campaign.subtree import Subtree
from taskq.files.blob_store import BlobStore
from taskq.files.blobs import open_blobs
from taskq.files.destination import opened
from taskq.model.errors import NotFound, ResultLost, UsageError
from taskq_agent.protocol import Input
from taskq_agent.text import is_unicode


def add(subtree: Subtree, path: Path, name: str | None, blobs: BlobStore | None) -> Input:
    """Store a file, and give it to the tasks of a campaign."""
    if name is None and not is_unicode(path.name):
        raise UsageError(
            f"{path.name!r} is not UTF-8: give it another name (--name) for tasks to use"
        )
    digest, size = (open_blobs(subtree.database) if blobs is None else blobs).put(path)
    name = path.name if name is None else name
    subtree.database.value("add_input", path=subtree.path, name=name, digest=digest, size=size)
    return Input(digest, size)


def fetch(
    subtree: Subtree, name: str, to: Path, recipe: int | None, blobs: BlobStore | None
) -> Input:
    """Write an input to a file, as it is now or as it was in a recipe."""
    found = recipes.recipe(subtree, recipe).inputs.get(name)
    if found is None:
        where = "" if recipe is None else f" in its recipe {recipe}"
        raise NotFound(
            f"{subtree.path} has no input {name}{where}; `taskq campaign show {subtree.path}` "
            "names all, with `--recipe N` those of a recipe"
        )
    wanted = Input(**found)
    store = open_blobs(subtree.database) if blobs is None else blobs
    with opened(to) as file:
        file.writelines(_content(store, wanted.digest, name))
    return wanted


def _content(store: BlobStore, digest: str, name: str) -> Iterator[bytes]:
    """Yield the content of an input; raise `ResultLost` if it is gone or damaged."""
    hashed = hashlib.sha256()
    try:
        for chunk in store.read(digest):
            hashed.update(chunk)
            yield chunk
    except NotFound as error:
        raise ResultLost(
            f"the content of the input {name} is not stored: {error}. Replaced content stays with "
            "the setting keep_inputs only; and is TASKQ_BLOBS the same here as where it was added?"
        ) from None
    if hashed.hexdigest() != digest:
        raise ResultLost(f"the content of the input {name} is damaged where it is stored: {digest}")
