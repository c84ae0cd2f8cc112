"""What is published installs into an empty environment, and works there."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from configparser import ConfigParser
from importlib import metadata
from pathlib import Path

import pytest

from taskq.model.version import VERSION
from taskq_agent.release import DISTRIBUTION
from tests.helpers import dist as distribution
from tests.helpers import release
from tests.helpers.paths import ROOT
from tests.helpers.surface import gone

FOLDERS = {
    "taskq": "taskq",
    "taskq/sql": "sql",
    "taskq_agent": "agents/taskq_agent",
    "taskq_cli": "cli/taskq_cli",
}
EXTRAS = "options.extras_require"
NAMED = re.compile(r"""(?:ExtraMissing|with needs|how_to_install)\([^()]*?["']([\w-]+)["']""")


def setup() -> ConfigParser:
    config = ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg")
    return config


def test_messages_name_extras_that_exist_and_no_name_of_an_index() -> None:
    """`pip install taskq` brings a stranger's package, and a stranger may register other names."""
    config = setup()
    assert config["metadata"]["name"] == DISTRIBUTION
    sources = [
        path
        for folder in ("taskq", "cli/taskq_cli", "agents/taskq_agent")
        for path in (ROOT / folder).rglob("*.py")
    ]
    named = {extra for path in sources for extra in NAMED.findall(path.read_text())}
    assert named
    assert named <= set(config[EXTRAS])
    assert not [path for path in sources if "pip install 'taskq" in path.read_text()]


def test_readme_says_which_extra_is_for_whom() -> None:
    text = (ROOT / "README.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    described = {extra.strip("`,") for row in rows for extra in row.split("|")[1].split()}
    assert described == set(setup()[EXTRAS]) - {"browser", "docs", "lint", "test"}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make what `make dist` does, but for the list of parts."""
    folder = tmp_path_factory.mktemp("dist")
    distribution.build(folder)
    return folder


@pytest.mark.thorough
def test_type_checkers_know_an_editable_installation(tmp_path: Path) -> None:
    """They run no import hooks, so the folders are on the path; nothing is missing at run time."""
    source, site = tmp_path / "source", tmp_path / "venv"
    subprocess.run(["git", "clone", "--quiet", ROOT, source], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", site], check=True)
    program = f"import setuptools.build_meta as of; of.build_editable({str(tmp_path)!r})"
    argv = [sys.executable, "-W", "ignore", "-c", program]
    subprocess.run(argv, cwd=source, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    (packages,) = site.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as files:
        names = set(files.namelist())
        (record,) = [name for name in names if name.endswith("/RECORD")]
        listed = {line.split(",")[0] for line in files.read(record).decode().splitlines()}
        assert listed == names
        files.extractall(packages)  # noqa: S202  # it is ours
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    python = site / "bin" / "python"
    program = "import taskq.sql, taskq_agent as of; print(taskq.sql.__file__, of.__file__)"
    argv = [python, "-I", "-c", program]
    found = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    assert found.split() == [
        f"{source}/sql/__init__.py",
        f"{source}/agents/taskq_agent/__init__.py",
    ]
    file = tmp_path / "user.py"
    file.write_text("import taskq\ntaskq.conect()\nx: int = taskq.connect()\n")
    argv = [sys.executable, "-I", "-m", "mypy", "--python-executable", python, file.name]
    output = subprocess.run(argv, cwd=tmp_path, check=False, capture_output=True, text=True).stdout
    assert 'Module has no attribute "conect"' in output
    assert 'has type "Client"' in output


@pytest.fixture
def home() -> Iterator[Path]:
    """Return a folder that any user may reach: pytest's are for the user who runs it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "home"


class Installed:
    """An archive in an empty environment, with a home of its own."""

    def __init__(self, archive: Path, extras: str, folder: Path, home: Path) -> None:
        self.folder = folder
        self._programs = folder / "venv" / "bin"
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        pip = [self._programs / "pip", "install", "--quiet", f"{archive}[{extras}]"]
        subprocess.run(pip, check=True)
        self._environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("TASKQ", "PG", "PYTHON"))
        } | {"TASKQ_HOME": str(home), "PATH": f"{self._programs}:{os.environ['PATH']}"}
        if os.getuid() == 0:  # PostgreSQL does not run as root
            self._environ["TASKQ_RUN_AS"] = os.environ.get("TASKQ_RUN_AS", "nobody")

    def start(self, *words: object) -> subprocess.Popen[str]:
        """Start a program, whose output can be read."""
        return subprocess.Popen(
            [*map(str, words)],
            env=self._environ,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            text=True,
        )

    def taskq(self, *words: object, given: str = "") -> str:
        """Return what a command of taskq has written."""
        return subprocess.run(
            [self._programs / "taskq", *map(str, words)],
            env=self._environ,
            cwd=self.folder,
            input=given,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout

    def seeded(self) -> None:
        """Create a campaign with two tasks."""
        self.taskq("campaign", "create", "/first", "--", "expr", "2", "*", "{n}")
        self.taskq("seed", "/first", "-", "--format", "jsonl", given='{"n": 1}\n{"n": 2}\n')

    def results(self) -> list[object]:
        """Return the results."""
        shown = self.taskq("results", "/first", "-o", "jsonl")
        return [json.loads(line)["result"] for line in shown.splitlines()]


@pytest.mark.thorough
@pytest.mark.parametrize("suffix", ["whl", "tar.gz"])
def test_quick_start_works_in_an_empty_environment(
    dist: Path, home: Path, tmp_path: Path, suffix: str
) -> None:
    """From the wheel, and from the source archive."""
    (archive,) = dist.glob(f"*.{suffix}")
    installed = Installed(archive, "embedded", tmp_path, home)
    python = [tmp_path / "venv/bin/python", "-c", "import taskq; taskq.connect"]
    here = subprocess.run(python, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "run your program in another folder" in here.stderr
    try:
        installed.seeded()
        installed.taskq("agent", "run", "--campaign", "/first", "--until-empty", "--quiet")
        assert len(installed.results()) == 2
    finally:
        installed.taskq("down")
    python[2] = "from taskq_agent.release import how_to_install; print(how_to_install('joblib'))"
    said = subprocess.run(python, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    command = shlex.split(said.strip().strip("`"))
    subprocess.run([python[0], "-m", *command], cwd=tmp_path, check=True)
    subprocess.run([python[0], "-c", "import joblib"], cwd=tmp_path, check=True)


@pytest.mark.thorough
def test_agent_of_one_file_works_with_a_python_alone(
    dist: Path, home: Path, tmp_path: Path
) -> None:
    """With nothing installed, through a gateway that was."""
    (archive,) = dist.glob("*.whl")
    installed = Installed(archive, "embedded,gateway", tmp_path, home)
    try:
        installed.seeded()
        words = ("token", "create", "a", "--kind", "site", "--campaign", "/first")
        installed.taskq(*words, "--to", tmp_path / "token")
        gateway = ("gateway", "--listen", "127.0.0.1:0", "--quiet")
        with installed.start(tmp_path / "venv/bin/taskq", *gateway) as serving:
            assert serving.stdout is not None
            url = serving.stdout.readline().strip()
            python = (Path(sys.base_prefix) / "bin/python3", "-I", "-S")
            agent = (*python, dist / "taskq-agent.pyz", "run", "--gateway", url, "--until-empty")
            with installed.start(*agent, "--token-file", tmp_path / "token", "--quiet") as working:
                assert working.wait() == 0
            serving.terminate()
        assert len(installed.results()) == 2
    finally:
        installed.taskq("down")


@pytest.mark.thorough
def test_page_of_the_package_has_links_that_lead_somewhere(dist: Path) -> None:
    """README's lead to files of a checkout; here they lead to pages of the site."""
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as members:
        (name,) = [member for member in members.namelist() if member.endswith("/METADATA")]
        text = members.read(name).decode()
    url = setup()["metadata"]["url"]
    assert f"Project-URL: Documentation, {url}\n" in text
    links = re.findall(r"\]\(([^)#][^)]*)\)|src=\"([^\"]+)", "".join(text.split("```")[::2]))
    pages = [linked or shown for linked, shown in links]
    assert len(pages) > 20
    assert [page for page in pages if not page.startswith("https://")] == []
    assert f"{url}/{VERSION}/docs/cli.html#keys-of-tasks" in pages


@pytest.mark.thorough
def test_wheel_has_each_file_of_sql(dist: Path) -> None:
    """In whatever folder: a function that is missing there is missing in each new database."""
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as members:
        packed = {member for member in members.namelist() if member.endswith(".sql")}
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "sql").rglob("*.sql")}
    assert {f"taskq/{file}" for file in files} <= packed


def test_checkout_with_placeholders_is_not_released(tmp_path: Path) -> None:
    """`make release` says what to set, and is silent when all is set and committed."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    (tmp_path / "setup.cfg").write_text("[metadata]\nurl = https://taskq.example.org\n")
    (tmp_path / "CHANGELOG.md").write_text(f"## {VERSION} (unreleased)\n")
    (tmp_path / "SECURITY.md").write_text("Write to security@taskq.example.org.\n")
    (tmp_path / "CITATION.cff").write_text('version: "0.0.0"\n')
    subprocess.run([*git, "init", "--quiet"], check=True)
    found = release.missing(tmp_path)
    places = ["setup.cfg", "SECURITY.md", "CHANGELOG.md", "CITATION.cff", "git status"]
    assert [text.partition(":")[0] for text in found] == places
    assert "security@taskq.example.org" in found[1]
    (tmp_path / "setup.cfg").write_text("[metadata]\nurl = https://taskq.dev\n")
    (tmp_path / "CHANGELOG.md").write_text(f"## {VERSION} (2026-03-01)\n")
    (tmp_path / "SECURITY.md").write_text("Write to security@taskq.dev.\n")
    (tmp_path / "CITATION.cff").write_text(f'version: "{VERSION}"\n')
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "release"], check=True)
    assert release.missing(tmp_path) == []
    subprocess.run([*git, "tag", f"v{VERSION}"], check=True)
    assert release.missing(tmp_path) == []


def test_release_upgrades_a_farm_of_the_one_before(tmp_path: Path) -> None:
    """The made-up next release stands in for it only as long as there is no other."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for file, text in [
        ("setup.cfg", "[metadata]\nurl = https://taskq.dev\n"),
        ("CHANGELOG.md", f"## {VERSION} (2026-03-01)\n"),
        ("SECURITY.md", ""),
        ("CITATION.cff", f'version: "{VERSION}"\n'),
        ("docs/surface.txt", ""),
    ]:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "release"], check=True)
    subprocess.run([*git, "tag", "v0.0.9"], check=True)
    (found,) = release.missing(tmp_path)
    assert found.startswith("tests/upgrade: upgrade a farm of v0.0.9 to this release")


def test_names_that_users_lose_are_in_the_changelog(tmp_path: Path) -> None:
    """A release is refused until it says what went since the one before; new names need nothing."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    (tmp_path / "docs").mkdir()
    surface, log = tmp_path / "docs/surface.txt", tmp_path / "CHANGELOG.md"
    surface.write_text("command: seed --key N\ncommand: top\n")
    log.write_text("")
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "release"], check=True)
    assert gone(tmp_path) == []
    subprocess.run([*git, "tag", "v0.0.9"], check=True)
    surface.write_text("command: top\ncommand: watch\n")
    assert gone(tmp_path) == ["command: seed --key N"]
    log.write_text("Removed: `seed --key N`; use `--key-field`.\n")
    assert gone(tmp_path) == []


def test_site_keeps_the_manuals_of_other_releases(tmp_path: Path) -> None:
    """Pages offer the release with the highest number first, and the bare address leads to it."""
    built, site = tmp_path / "built", tmp_path / "site"
    for folder in (built, site / "0.0.9", site / "0.0.10"):
        folder.mkdir(parents=True)
    (built / "index.html").write_text("the manual")
    for _ in range(2):
        release.place_site(built, site)
    listed = json.loads((site / "versions.json").read_text())
    assert [release["version"] for release in listed] == [VERSION, "0.0.10", "0.0.9"]
    assert f"url={VERSION}/index.html" in (site / "index.html").read_text()
    assert (site / VERSION / "index.html").read_text() == "the manual"


@pytest.mark.thorough
def test_same_commit_gives_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    """Also under another mask of rights, in another folder, at another time."""
    before = os.umask(0o077)
    try:
        distribution.build(tmp_path / "again")
    finally:
        os.umask(before)
    first, second = (
        {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        for folder in (dist, tmp_path / "again")
    )
    assert len(first) == 3
    assert first == second


@pytest.mark.thorough
def test_list_of_parts_names_what_is_installed_and_no_folder(tmp_path: Path) -> None:
    """In the form that scanners of vulnerabilities read; it is checked against its schema."""
    file = tmp_path / distribution.PARTS_LIST
    distribution.list_parts(Path(sys.executable), file)
    parts = json.loads(file.read_text())
    assert parts["bomFormat"] == "CycloneDX"
    found = {part["name"]: part for part in parts["components"]}
    named = re.findall(r"^[a-z_-]+", setup()["options"]["install_requires"], re.MULTILINE)
    assert {DISTRIBUTION, "psycopg-binary", *named} - {"tomli"} <= set(found)
    assert found["click"]["purl"] == f"pkg:pypi/click@{metadata.version('click')}"
    assert "file:" not in file.read_text()


@pytest.mark.thorough
def test_archives_hold_each_file_of_the_product(dist: Path) -> None:
    """One that is forgotten is missed only where taskq does not run from its checkout."""
    tracked = set(
        subprocess.run(
            ["git", "ls-files", *FOLDERS.values()],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
    )
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as members:
        assert tracked <= {name.partition("/")[2] for name in members.getnames()}
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as members:
        held = set(members.namelist())
    for package, folder in FOLDERS.items():
        inside = (name.removeprefix(folder) for name in tracked if name.startswith(f"{folder}/"))
        assert not [name for name in inside if f"{package}{name}" not in held]
