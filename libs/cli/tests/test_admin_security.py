"""`admin migrate` notes the profile in the database; `admin rotate-kek` seals secrets again."""

import base64
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest

from datarecs_cli.main import run
from datarecs_core.egress.addresses import Profile
from datarecs_core.errors.process import InsecureStartError
from datarecs_core.values import ResourceUid
from datarecs_core.webhooks.signature import SECRET_FIELD, secret_context
from datarecs_postgres.database import Database
from datarecs_postgres.roles import API, MIGRATE
from datarecs_postgres.server_checks import refuse_unsafe_database
from datarecs_runtime.clock import SystemClock
from datarecs_runtime.secrets import Keyring, TenantSecrets
from datarecs_runtime.sections import Secrets
from datarecs_testing.builders import A_TENANT
from datarecs_testing.database import PreparedDatabase

Shown = pytest.CaptureFixture[str]
OLD, NEW = bytes(range(32)), bytes(range(1, 33))
KEYS = {
    "DATARECS_SECRETS__KEK": base64.b64encode(NEW).decode(),
    "DATARECS_SECRETS__KEK_ID": "kek-2",
    "DATARECS_SECRETS__PREVIOUS_KEK": base64.b64encode(OLD).decode(),
    "DATARECS_SECRETS__PREVIOUS_KEK_ID": "kek-1",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


def starts(database: PreparedDatabase, profile: Profile) -> bool:
    with closing(Database(database.url(API))) as login:
        try:
            refuse_unsafe_database((login,), profile, now=SystemClock().now)
        except InsecureStartError:
            return False
    return True


@pytest.mark.integration
def test_migrate_notes_the_profile(
    private_database: PreparedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATARECS_DATABASE__URL", private_database.url(MIGRATE))
    assert starts(private_database, Profile.LOCAL)
    assert run(["admin", "migrate"]) == 0
    assert not starts(private_database, Profile.LOCAL)
    assert starts(private_database, Profile.SERVER)
    monkeypatch.setenv("DATARECS_PROFILE", "local")
    assert run(["admin", "migrate"]) == 0
    assert starts(private_database, Profile.LOCAL)


@pytest.mark.parametrize("missing", [("KEK",), ("PREVIOUS_KEK", "PREVIOUS_KEK_ID")])
def test_a_rotation_without_both_keys_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: Shown, missing: tuple[str, ...]
) -> None:
    for name, value in KEYS.items():
        if name.removeprefix("DATARECS_SECRETS__") not in missing:
            monkeypatch.setenv(name, value)
    assert run(["admin", "rotate-kek"]) == 2
    assert "DATARECS_SECRETS__PREVIOUS_KEK_FILE" in capsys.readouterr().err


@pytest.mark.integration
def test_a_rotation_says_what_is_done_and_what_is_left(
    private_database: PreparedDatabase, monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DATARECS_DATABASE__URL", private_database.url(MIGRATE))
    uid = ResourceUid(UUID(int=7))
    for key_id, sealing in (("a", OLD), ("b", bytes(32))):
        name = "kek-1" if sealing is OLD else "kek-0"
        store = TenantSecrets(
            Secrets(), keyring=Keyring({name: sealing}, current=name), environment={}
        )
        context = secret_context(A_TENANT, uid, key_id)
        with private_database.connect() as connection:
            connection.execute("SET session_replication_role = replica")  # without the resource
            connection.execute(
                "INSERT INTO datarecs.sealed_secret (tenant_id, resource_uid, field, key_id,"
                " sealed) VALUES (%s, %s, %s, %s, %s)",
                (A_TENANT, uid, SECRET_FIELD, key_id, store.seal(b"x", context=context)),
            )
    assert run(["admin", "rotate-kek"]) == 3
    shown = capsys.readouterr()
    lines = (shown.out + shown.err).splitlines()
    assert lines[0] == "1 secret sealed under kek-2"
    assert lines[1].startswith(f"not changed: {uid} b: a stored secret cannot be decrypted")
    assert lines[2] == "1 secret still sealed under kek-0"
    private_database.query("DELETE FROM datarecs.sealed_secret WHERE key_id = 'b'")
    assert run(["admin", "rotate-kek"]) == 0
    shown = capsys.readouterr()
    assert "none under kek-1: remove it from the services" in shown.out + shown.err
    for value in KEYS.values():
        assert value.startswith("kek-") or value not in shown.out + shown.err
