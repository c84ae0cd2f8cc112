"""Needs PRoot and a static busybox, so it is run only where asked: `make test-udocker`.

udocker's own programs are on a server; of these only PRoot is needed here, which Debian has.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

IMAGE = "taskq-test:1"
_LINKS = ("sh", "cat", "sleep", "touch", "env")
#: The release of udocker's programs that it wants at least.
_ENGINES = "9.9.9"


@pytest.fixture(scope="session", autouse=True)
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Let udocker have an image with a busybox, and nothing else; return the image as a folder."""
    missing = [name for name in ("proot", "busybox") if shutil.which(name) is None]
    assert not missing, f"{missing}: `apt-get install proot busybox-static` as root"
    home = tmp_path_factory.mktemp("udocker")
    (home / "store" / "lib").mkdir(parents=True)
    (home / "store" / "lib" / "VERSION").write_text(_ENGINES)
    os.environ["UDOCKER_DIR"] = str(home / "store")
    os.environ["UDOCKER_USE_PROOT_EXECUTABLE"] = str(shutil.which("proot"))
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    image = home / "root"
    (image / "bin").mkdir(parents=True)
    (image / "etc").mkdir()
    shutil.copy(str(shutil.which("busybox")), image / "bin" / "busybox")
    for name in _LINKS:
        (image / "bin" / name).symlink_to("busybox")
    (image / "etc" / "passwd").write_text("root:x:0:0::/:/bin/sh\n")
    (image / "etc" / "group").write_text("root:x:0:\n")
    archive = shutil.make_archive(str(home / "image"), "tar", image)
    udocker("import", archive, IMAGE)
    return image


def udocker(*words: str) -> str:
    """Call udocker; return what it prints."""
    argv = ["udocker", *["--allow-root"] * (os.geteuid() == 0), "-q", *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def copies() -> list[str]:
    """Return the copies of images that are there."""
    return sorted(path.name for path in Path(os.environ["UDOCKER_DIR"], "containers").iterdir())
