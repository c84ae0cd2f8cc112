"""Results with how they were computed, as an RO-Crate: a folder that other programs can read.

The metadata follow RO-Crate 1.1 and its profile Process Run Crate 0.5. Each recipe with results
is an action: its instrument is the handler, its objects are inputs, by their digests, and
parameters. A million tasks are one action: the file of results has their times and hosts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from taskq.model.recipes import Recipe
from taskq.model.words import counted

Entity: TypeAlias = dict[str, Any]
#: Returns the content of a recipe of a campaign, and who gave it.
Look: TypeAlias = Callable[[str, int], tuple[Recipe, str]]

METADATA: Final = "ro-crate-metadata.json"
_CRATE: Final = "https://w3id.org/ro/crate/1.1"
_PROFILE: Final = "https://w3id.org/ro/wfrun/process/0.5"
_TERMS: Final = "https://w3id.org/ro/terms/workflow-run"
_DONE: Final = "http://schema.org/CompletedActionStatus"
_MEDIA_TYPES: Final = {
    "jsonl": "application/x-ndjson",
    "json": "application/json",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "sdf": "chemical/x-mdl-sdfile",
}
_DIGEST: Final = re.compile(r"sha256:([0-9a-f]{64})")
_READ_BYTES: Final = 1 << 20


@dataclass(slots=True)
class Made:
    """The results that one recipe of a campaign made. recipe: None: nobody knows which."""

    path: str
    recipe: int | None
    results: int
    first: datetime
    last: datetime


class Makers:
    """Notes which recipes made the results that pass through."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, int | None], Made] = {}

    def of(self, records: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Yield the records."""
        for record in records:
            which = record["campaign"], record["recipe"]
            first, last = record["claimed_at"], record["ended_at"]
            made = self._made.setdefault(which, Made(*which, 0, first, last))
            made.results += 1
            made.first, made.last = min(made.first, first), max(made.last, last)
            yield record

    def all(self) -> list[Made]:
        """Return what each recipe made, by campaign and number."""
        return sorted(self._made.values(), key=lambda made: (made.path, made.recipe or 0))


@dataclass(frozen=True, slots=True)
class Origin:
    """How results came to be. recipe: its content; by: who gave it to the campaign."""

    made: Made
    recipe: Recipe | None
    by: str


def describe(
    folder: Path, results: str, how: str, path: str, origins: Iterable[Origin], *, at: datetime
) -> None:
    """Write the metadata of a folder with a file of results, and a file for each recipe.

    how: the format of the results. path: the campaign. at: the time of the export.
    """
    written = _File(folder, results, f"Results of {path}", _MEDIA_TYPES[how])
    entities: dict[str, Entity] = {}
    actions, parts = [], [written.reference]
    for number, origin in enumerate(origins, 1):
        made = list(_action(folder, number, origin, written.reference))
        actions.append({"@id": made[0]["@id"]})
        for entity in made:
            entities[entity["@id"]] = entity
            if entity["@type"] == "File":
                parts.append({"@id": entity["@id"]})
    graph = [
        {
            "@id": METADATA,
            "@type": "CreativeWork",
            "about": {"@id": "./"},
            "conformsTo": {"@id": _CRATE},
        },
        {
            "@id": "./",
            "@type": "Dataset",
            "name": f"Results of {path}",
            "description": f"Results of the campaign {path}, and the recipes that made them.",
            "datePublished": _instant(at),
            "license": {"@id": "#license"},
            "conformsTo": {"@id": _PROFILE},
            "hasPart": [*{part["@id"]: part for part in parts}.values()],
            "mentions": actions,
        },
        {
            "@id": _PROFILE,
            "@type": "CreativeWork",
            "name": "Process Run Crate",
            "version": "0.5",
        },
        {
            "@id": "#license",
            "@type": "CreativeWork",
            "name": "No licence is stated",
            "description": "Ask who ran the campaign under which terms these may be used.",
        },
        written.entity(),
        *entities.values(),
    ]
    text = {"@context": [f"{_CRATE}/context", f"{_TERMS}/context"], "@graph": graph}
    (folder / METADATA).write_text(f"{json.dumps(text, indent=1, ensure_ascii=False)}\n", "utf-8")


class _File:
    """A file of the crate."""

    def __init__(self, folder: Path, name: str, title: str, media_type: str) -> None:
        self._path = folder / name
        self._title = title
        self._media_type = media_type
        self.reference = {"@id": name}

    def entity(self) -> Entity:
        """Describe it, as it is now."""
        digest = hashlib.sha256()
        with self._path.open("rb") as stream:
            while block := stream.read(_READ_BYTES):
                digest.update(block)
        return {
            **self.reference,
            "@type": "File",
            "name": self._title,
            "encodingFormat": self._media_type,
            "contentSize": str(self._path.stat().st_size),
            "sha256": digest.hexdigest(),
        }


def _action(folder: Path, number: int, origin: Origin, results: Entity) -> Iterator[Entity]:
    """Yield the action by which a recipe made results, and what belongs to it."""
    made, recipe = origin.made, origin.recipe
    name = f"recipe {made.recipe} of {made.path}" if recipe else f"unknown recipe of {made.path}"
    agent = {"@id": f"#agent-{quote(origin.by, safe='')}"} if origin.by else None
    objects = list(_objects(folder, number, name, recipe)) if recipe is not None else []
    image = _image(recipe.handler) if recipe is not None and recipe.handler else None
    yield {
        "@id": f"#run-{number}",
        "@type": "CreateAction",
        "name": f"Run of {name}",
        "description": f"{counted(made.results, 'result')}, computed by agents of taskq.",
        "startTime": _instant(made.first),
        "endTime": _instant(made.last),
        "actionStatus": _DONE,
        "instrument": {"@id": f"#handler-{number}"},
        "object": [{"@id": entity["@id"]} for entity in objects],
        "result": results,
        **({"agent": agent} if agent else {}),
        **({"containerImage": {"@id": image["@id"]}} if image else {}),
    }
    handler = recipe.handler if recipe is not None else None
    yield {
        "@id": f"#handler-{number}",
        "@type": "SoftwareApplication",
        "name": _name(handler) if handler else "unknown",
        "description": f"The handler of the {name}.",
    }
    yield from objects
    if agent:
        yield {**agent, "@type": "Person", "name": origin.by}
    if image:
        yield image


def _objects(folder: Path, number: int, name: str, recipe: Recipe) -> Iterator[Entity]:
    """Write a recipe to a file; yield it, its inputs and its parameters."""
    (folder / "recipes").mkdir(exist_ok=True)
    file = _File(folder, f"recipes/{number}.json", name.capitalize(), _MEDIA_TYPES["json"])
    content = {"handler": recipe.handler, "params": recipe.params, "inputs": recipe.inputs}
    text = json.dumps(content, indent=1, ensure_ascii=False)
    (folder / file.reference["@id"]).write_text(f"{text}\n", "utf-8")
    yield file.entity()
    for title, given in sorted(recipe.inputs.items()):
        yield {
            "@id": f"hash://sha256/{given['digest']}",
            "@type": "File",
            "name": title,
            "description": "An input, which is not a part of this folder.",
            "contentSize": str(given["size"]),
            "sha256": given["digest"],
        }
    for title, value in sorted(recipe.params.items()):
        plain = isinstance(value, str | int | float)
        yield {
            "@id": f"#param-{number}-{quote(title, safe='')}",
            "@type": "PropertyValue",
            "name": title,
            "value": value if plain else json.dumps(value, ensure_ascii=False),
        }


def _instant(at: datetime) -> str:
    return at.isoformat(timespec="seconds")


def _name(handler: Mapping[str, Any]) -> str:
    """Return what a handler runs, in a line."""
    argv = handler.get("argv")
    if isinstance(argv, list):
        return " ".join(map(str, argv))
    return str(handler.get("target") or handler.get("kind") or "handler")


def _image(handler: Mapping[str, Any]) -> Entity | None:
    """Return the image that a handler runs in, if it does."""
    image = handler.get("container")
    if not isinstance(image, str):
        return None
    kind = "SIFImage" if image.endswith(".sif") else "DockerImage"
    digest = _DIGEST.search(image)
    return {
        "@id": f"#image-{quote(image, safe='')}",
        "@type": "ContainerImage",
        "additionalType": {"@id": f"{_TERMS}#{kind}"},
        "name": image,
        **({"sha256": digest[1]} if digest else {}),
    }


def origins(made: Iterable[Made], look: Look) -> Iterator[Origin]:
    """Yield how results came to be."""
    for some in made:
        if some.recipe is None:
            yield Origin(some, None, "")
        else:
            yield Origin(some, *look(some.path, some.recipe))
