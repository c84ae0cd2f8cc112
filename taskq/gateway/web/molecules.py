"""Molecules on pages: texts that are SMILES, and their pictures, drawn by another process.

The time, memory and size of a picture are bounded, and so is the number of requests that wait:
anybody who may seed tasks or report results chooses what is drawn.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import re
import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from taskq.model.errors import Unavailable

MOST_CHARS: Final = 500
#: Seconds for a picture, and until the process has begun.
DRAW_S: Final = 3.0
START_S: Final = 60.0
#: Pictures that are kept, and that are waited for.
MOST_KEPT: Final = 500
MOST_WAITING: Final = 64
#: Bytes of a line of the process; its pictures have fewer.
_LINE_BYTES: Final = 1 << 18
_DEEPEST: Final = 3
#: Isolated (`-I`) from what the environment, the folder or the user would add.
_PROGRAM: Final = (sys.executable, "-I", str(Path(__file__).with_name("drawing.py")))
_SMILES: Final = re.compile(rf"[A-Za-z0-9@+\-\[\]()=#$:/\\.%*~]{{1,{MOST_CHARS}}}")

log = logging.getLogger(__name__)


def smiles_of(*values: object) -> str:
    """Return the first possible SMILES in fields whose names end with `smiles`; empty if none."""
    return next((text for value in values for text in _texts(value, 0)), "")


def _texts(value: object, depth: int) -> Iterator[str]:
    if not isinstance(value, Mapping) or depth == _DEEPEST:
        return
    for name, inner in value.items():
        if isinstance(inner, str):
            if str(name).lower().endswith("smiles") and _SMILES.fullmatch(inner):
                yield inner
        else:
            yield from _texts(inner, depth + 1)


class Drawer:
    """Draws molecules, one at a time, for one asyncio loop.

    can_draw: whether RDKit is installed. The drawer remembers for a while a SMILES that ends the
    process or takes too long, and does not try it again.
    """

    def __init__(self, program: Sequence[str] = _PROGRAM) -> None:
        self.can_draw: Final = importlib.util.find_spec("rdkit") is not None
        self._program = program
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._kept: OrderedDict[str, bytes | None] = OrderedDict()

    async def draw(self, smiles: str) -> bytes | None:
        """Return a picture as SVG; None if it cannot be drawn. Raise `Unavailable` if too busy."""
        if not self.can_draw or not _SMILES.fullmatch(smiles):
            return None
        if smiles not in self._kept:
            if self._waiting >= MOST_WAITING:
                raise Unavailable("too many molecules wait to be drawn; reload the page later")
            self._waiting += 1
            try:
                async with self._turn:
                    if smiles not in self._kept:
                        await self._keep(smiles)
            finally:
                self._waiting -= 1
        return self._kept.get(smiles)

    async def _keep(self, smiles: str) -> None:
        self._kept[smiles] = await self._drawn(smiles)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)

    async def _drawn(self, smiles: str) -> bytes | None:
        try:
            process = await self._running()
            picture = await asyncio.wait_for(self._asked(process, smiles), DRAW_S)
        except (OSError, ValueError, asyncio.TimeoutError, asyncio.LimitOverrunError) as error:
            log.warning("the molecule %.100r cannot be drawn: %r", smiles, error)
            await self.close()
            return None
        except BaseException:  # a late answer would be taken for the next one's
            await self.close()
            raise
        return None if picture is None else str(picture).encode()

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *self._program,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},  # no address of a database
                limit=_LINE_BYTES,
            )
            await asyncio.wait_for(_line(self._process), START_S)
        return self._process

    @staticmethod
    async def _asked(process: asyncio.subprocess.Process, smiles: str) -> Any:
        assert process.stdin is not None  # noqa: S101  # a pipe, as asked for
        process.stdin.write(f"{json.dumps(smiles)}\n".encode())
        await process.stdin.drain()
        return await _line(process)

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _line(process: asyncio.subprocess.Process) -> Any:
    """Return the next line of a process; raise `ValueError` if it has ended."""
    assert process.stdout is not None  # noqa: S101  # a pipe, as asked for
    return json.loads(await process.stdout.readline())
