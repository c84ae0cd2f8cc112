"""What setup.cfg cannot say: the packages, in four folders, and the page of the package index."""

import re
import warnings
import zipfile
from base64 import urlsafe_b64encode
from configparser import ConfigParser
from hashlib import sha256
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.editable_wheel import editable_wheel

ROOTS = {
    "taskq": "taskq",
    "taskq.sql": "sql",
    "taskq_agent": "agents/taskq_agent",
    "taskq_cli": "cli/taskq_cli",
}

# Folders here have the names of packages, as an editable installation warns: it is meant so.
warnings.filterwarnings("ignore", "Editable installation")


def described(url: str) -> str:
    """Return README.md with links to the site, since those of a checkout lead nowhere elsewhere."""

    def absolute(link: re.Match[str]) -> str:
        page = re.sub(r"(^|/)README\.md", r"\1index.html", link[2])
        return f"{link[1]}{url}/{re.sub(r'[.]md(?=#|$)', '.html', page)}{link[3]}"

    parts = Path("README.md").read_text(encoding="utf-8").split("```")  # each second one is code
    links = re.compile(r"""(\]\(|src=")(?!https?:|#)([^)"]+)([)"])""")
    return "```".join(one if i % 2 else links.sub(absolute, one) for i, one in enumerate(parts))


config = ConfigParser(interpolation=None)
config.read("setup.cfg")
url = config["metadata"]["url"]
source = Path("taskq/model/version.py").read_text(encoding="utf-8")
manual = f"{url}/{source.rpartition(' = ')[2].strip().strip(chr(34))}"  # of this release


class EditableWheel(editable_wheel):
    """Adds the folders of the packages to the path: type checkers run no import hooks."""

    def run(self) -> None:
        """Make the wheel, and put a file with the folders into it."""
        super().run()
        here = Path(__file__).resolve().parent
        text = "".join(f"{here / folder}\n" for folder in (".", "agents", "cli")).encode()
        for wheel in Path(self.dist_dir).glob("*editable*.whl"):
            with zipfile.ZipFile(wheel) as made:
                files = {name: made.read(name) for name in made.namelist()}
            record = next(name for name in files if name.endswith(".dist-info/RECORD"))
            name = f"__editable__.{wheel.name.split('-')[0]}_folders.pth"
            digest = urlsafe_b64encode(sha256(text).digest()).decode().rstrip("=")
            files[record] += f"{name},sha256={digest},{len(text)}\n".encode()
            with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as made:
                for member, data in {name: text, **files}.items():
                    made.writestr(member, data)


setup(
    cmdclass={"editable_wheel": EditableWheel},
    long_description=described(manual),
    long_description_content_type="text/markdown",
    project_urls={
        "Documentation": url,
        "Changelog": f"{manual}/CHANGELOG.html",
        "Tutorial": f"{manual}/docs/tutorials/laptop.html",
    },
    package_dir=ROOTS,
    packages=[
        name
        for root, folder in ROOTS.items()
        for name in (root, *(f"{root}.{below}" for below in find_packages(folder)))
    ],
)
