"""Binds as text, and which of them a node allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskq_agent import automounts
from taskq_agent.automounts import mounts_of
from taskq_agent.binds import Bind, allowance, of_campaign, of_site
from taskq_agent.handlers.binding import BindUnavailable, resolved

TABLE = """\
22 27 0:21 / /proc rw,relatime shared:12 - proc proc rw
27 1 8:1 / / rw,relatime {root} - ext4 /dev/sda1 rw
40 27 0:40 / /cvmfs rw,relatime {cvmfs} - autofs /etc/auto.cvmfs rw,fd=6,indirect
41 40 0:41 / /cvmfs/chem.example.org ro,nodev {cvmfs} - fuse cvmfs2 ro
42 27 0:42 / /site\\040data rw shared:9 unbindable - nfs4 server:/data rw
a line of a later kernel
"""


@pytest.mark.parametrize(
    ("text", "bind"),
    [
        ("/cvmfs", Bind("/cvmfs", "/cvmfs")),
        ("/cvmfs/", Bind("/cvmfs", "/cvmfs")),
        ("/scratch/ada:/data", Bind("/scratch/ada", "/data")),
        ("/scratch/ada:rw", Bind("/scratch/ada", "/scratch/ada", read_only=False)),
        ("/scratch/ada:/data:rw", Bind("/scratch/ada", "/data", read_only=False)),
        ("/scratch/ada:/data:ro", Bind("/scratch/ada", "/data")),
        ("/:/node", Bind("/", "/node")),
    ],
)
def test_bind_is_read_only_unless_it_says_otherwise(text: str, bind: Bind) -> None:
    assert of_campaign(text) == bind
    assert of_site(text) == bind


@pytest.mark.parametrize(
    "text",
    [
        *("", "data", "./data", "/a/../etc", "/a/./b", "/a//b", "//a", "/a:b", "/a:/b:/c"),
        *("/a:/b:ro,rw", "/a:/b:z", "/a:/b:rw:rw", "/a:", "/a:/", "/", "/a,dst=/etc", '/a"b'),
        *("/a\nb", "/a\\b", "/a:/b,readonly=false", "/a\0b", "/a:optional", "~/data", "$HOME:/h"),
    ],
)
def test_text_that_is_no_bind_is_refused(text: str) -> None:
    """No runtime has to make sense of it."""
    with pytest.raises(ValueError, match=r"bind|path|bound"):
        of_campaign(text)


@pytest.mark.parametrize("value", [None, 1, ["/a"], {"host": "/a"}])
def test_bind_is_text(value: object) -> None:
    with pytest.raises(ValueError, match="a bind is text"):
        of_campaign(value)


def test_site_allows_paths_of_the_node_only() -> None:
    assert allowance("/scratch:rw") == Bind("/scratch", "", read_only=False)
    with pytest.raises(ValueError, match="reads PATH"):
        allowance("/scratch:/data")


def within(folder: Path, *texts: str) -> list[str]:
    """Return texts of binds with `~` for a folder."""
    return [text.replace("~", str(folder)) for text in texts]


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """Give the root of a node: an open folder, a secret one, and links."""
    for name in ("open/data", "secret", "openly"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "open" / "way-out").symlink_to(tmp_path / "secret")
    (tmp_path / "also-open").symlink_to(tmp_path / "open")
    return tmp_path


@pytest.mark.parametrize(
    ("wanted", "allowed"),
    [
        ("~/open", "~/open"),
        ("~/open/data:/data", "~/open"),
        ("~/also-open/data", "~/open"),
        ("~/open/data", "~/also-open"),
        ("~/open/data:rw", "~/open:rw"),
        ("~/open/data", "~/open:rw"),
        ("~/secret", "/"),
    ],
)
def test_campaign_binds_what_the_site_allows_and_what_is_below(
    node: Path, wanted: str, allowed: str
) -> None:
    """Whatever links lead there; what is bound is where they lead."""
    text, its = within(node, wanted, allowed)
    (bind,) = resolved([of_campaign(text)], [], [allowance(its)]).values()
    assert bind.host == str((node / Path(of_campaign(text).host)).resolve())
    assert (bind.inside, bind.read_only) == (of_campaign(text).inside, not text.endswith(":rw"))


@pytest.mark.parametrize(
    ("wanted", "allowed"),
    [
        ("~/open", []),
        ("~/secret", ["~/open"]),
        ("~/openly", ["~/open"]),
        ("~/open/way-out", ["~/open:rw"]),
        ("~/open:rw", ["~/open"]),
        ("~", ["~/open"]),
        ("/:/node", ["~/open"]),
        ("~/open/absent", ["~/open"]),
    ],
)
def test_campaign_binds_nothing_else(node: Path, wanted: str, allowed: list[str]) -> None:
    """No link leads out of what is allowed, and what is absent is no empty folder."""
    (text,) = within(node, wanted)
    with pytest.raises(BindUnavailable, match=r"--allow-bind|there is no"):
        resolved([of_campaign(text)], [], [allowance(its) for its in within(node, *allowed)])


def test_folder_that_the_site_binds_is_allowed_to_campaigns_too(node: Path) -> None:
    """And nothing more of it: not to be written."""
    (open_,) = within(node, "~/open")
    found = resolved([of_campaign(f"{open_}:/data")], [of_site(open_)], [])
    assert {inside: bind.host for inside, bind in found.items()} == {open_: open_, "/data": open_}
    with pytest.raises(BindUnavailable, match="for writing"):
        resolved([of_campaign(f"{open_}:/data:rw")], [of_site(open_)], [])


def test_bind_of_the_site_that_is_absent_is_left_out_only_if_it_is_optional() -> None:
    """Nodes of one site differ, but no program runs without what it needs."""
    assert resolved([], [of_site("/no/cvmfs:optional")], []) == {}
    with pytest.raises(BindUnavailable, match="there is no '/no/cvmfs' on this node"):
        resolved([], [of_site("/no/cvmfs")], [])


@pytest.mark.parametrize(
    ("path", "root", "cvmfs", "receives"),
    [
        ("/cvmfs", "shared:1", "shared:5", True),
        ("/cvmfs", "", "master:5", True),
        ("/cvmfs", "shared:1", "", False),
        ("/", "shared:1", "shared:5", True),
        ("/", "", "shared:5", False),
        ("/cvmfs/chem.example.org", "shared:1", "shared:5", False),
        ("/cvmfs-of-others", "shared:1", "shared:5", False),
        ("/site data", "shared:1", "shared:5", False),
    ],
)
def test_bind_receives_later_mounts_only_where_some_come_and_can(
    path: str, root: str, cvmfs: str, receives: bool
) -> None:
    """Docker begins no container that is to receive mounts from a private one."""
    there = mounts_of(TABLE.format(root=root, cvmfs=cvmfs).replace("  ", " "))
    assert [mount.point for mount in there][2:] == [
        "/cvmfs",
        "/cvmfs/chem.example.org",
        "/site data",
    ]
    assert automounts.receives(path, there) is receives


def test_bind_is_of_the_mount_on_top() -> None:
    """What systemd mounts when somebody looks lies over its automount."""
    lines = "1 0 0:1 / /data rw{} - autofs systemd-1 rw\n2 1 0:2 / /data rw{} - nfs4 x:/ rw\n"
    assert automounts.receives("/data", mounts_of(lines.format("", " shared:2")))
    assert not automounts.receives("/data", mounts_of(lines.format(" shared:1", "")))
