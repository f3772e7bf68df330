import pytest

from datarecs_core.access.permissions import (
    GRANTS,
    KEY_SCOPES,
    Permission,
    Role,
    permissions_of,
    refused_scopes,
)

# Spec security 4, once more by hand.
TABLE = {
    "read": "viewer operator editor admin auditor",
    "sample.read": "operator editor admin",
    "sample.unmask": "",
    **dict.fromkeys(
        [
            "run.trigger",
            "run.schedule",
            "run.cancel",
            "run.retry",
            "capture.trigger",
            "capture.cancel",
            "probe",
            "delivery.resend",
            "break.work",
        ],
        "operator editor admin",
    ),
    **dict.fromkeys(
        ["resource.write", "secret.write", "break.waive", "run.signoff"], "editor admin"
    ),
    **dict.fromkeys(
        ["queue.drain", "force.finalize", "body.expunge", "key.manage", "user.manage"], "admin"
    ),
    "queue.work": "",
    "audit.read": "admin auditor",
    "system.read": "",
}


@pytest.mark.case("X15")
@pytest.mark.parametrize("permission", Permission)
def test_a_permission_is_held_by_exactly_the_roles_of_the_table(permission: Permission) -> None:
    holders = {role.value for role in Role if permission in GRANTS[role]}
    assert holders == set(TABLE[permission].split())


def test_the_table_names_every_permission() -> None:
    assert set(TABLE) == {permission.value for permission in Permission}


def test_roles_together_grant_what_they_grant_one_by_one() -> None:
    both = permissions_of([Role.OPERATOR, Role.AUDITOR])
    assert both == GRANTS[Role.OPERATOR] | {Permission.AUDIT_READ}
    assert permissions_of([]) == frozenset()


@pytest.mark.case("X14")
def test_a_key_gets_no_scope_beyond_its_creators_permissions() -> None:
    editor = GRANTS[Role.EDITOR]
    wanted = ["read", "key.manage", "queue.work", "everything"]
    assert refused_scopes(wanted, creator=editor) == {"key.manage", "queue.work", "everything"}
    assert refused_scopes(["read", "run.trigger"], creator=editor) == frozenset()


def test_no_key_can_be_made_for_queue_work() -> None:
    assert frozenset(Permission) - KEY_SCOPES == {"queue.work"}
