"""`taskq db check` compares the rights that logins have with those of their roles."""

from __future__ import annotations

import pytest

from taskq.db.catalogue import ROLES
from tests.fixtures.logins import Staff
from tests.helpers.server_checks import break_by, follow, only


@pytest.mark.parametrize(
    ("order", "says"),
    [
        ("revoke execute on function taskq.tasks from {}", "lacks execute on tasks"),
        ("revoke select (path) on taskq.pilot from {}", "lacks select on pilot.path"),
        ("revoke usage on schema taskq from {}", "lacks usage of the schema"),
        ("grant select on taskq.token to {}", "has select on token"),
        ("grant select (hash) on taskq.token to {}", "has select on token.hash"),
        ("grant update on taskq.campaign to {}", "has update on campaign"),
        ("grant execute on function taskq.keep to {}", "has execute on keep"),
        ("grant create on schema taskq to {}", "has create on the schema"),
    ],
)
def test_rights_are_compared_as_they_are(staff: Staff, order: str, says: str) -> None:
    """What an administrator granted or revoked by hand is found, and one grant mends it."""
    login = staff.login("reader", "submitter")
    before = only(staff.owner.database, "rights")
    break_by(staff, order.format(login.name))
    fault = only(staff.owner.database, "rights")
    assert (before.state, fault.state) == ("fine", "fault")
    assert f"The login {login.name} {says}" in fault.text
    follow(staff, fault.remedy)
    assert only(staff.owner.database, "rights").state == "fine"


@pytest.mark.thorough
def test_rights_of_strangers_and_all_roles_are_judged(staff: Staff) -> None:
    """A login of each role has what its role has; a login without a role has nothing."""
    for role in ROLES:
        staff.login(role)
    assert only(staff.owner.database, "rights").state == "fine"
    stranger = staff.login()
    break_by(staff, f"grant select on taskq.spec to {stranger.name}")
    fault = only(staff.owner.database, "rights")
    assert f"The login {stranger.name} has select on spec without a role" in fault.text
    follow(staff, fault.remedy)
    assert only(staff.owner.database, "rights").state == "fine"
