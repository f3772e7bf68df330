import base64
import os
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from structlog.testing import capture_logs

from datarecs_core.access.references import SecretPurpose, SecretUse
from datarecs_core.egress.addresses import Profile
from datarecs_core.errors.process import SettingsError
from datarecs_core.errors.security import (
    SecretRefusedError,
    SecretTamperedError,
    SecretUnavailableError,
)
from datarecs_runtime.secrets import Keyring, TenantSecrets
from datarecs_runtime.sections import Secrets

TENANT = UUID("019b0000-0000-7000-8000-000000000001")
OTHER = UUID("019b0000-0000-7000-8000-000000000002")
CONTEXT = {"tenant": str(TENANT), "uid": "u1", "field": "signing", "version": "3"}
KEYS = {"k1": bytes(range(32)), "k2": bytes(range(32, 64))}


def a_store(
    *, current: str = "k1", environment: dict[str, str] | None = None, root: Path | None = None
) -> TenantSecrets:
    return TenantSecrets(
        Secrets(tenant_names={TENANT: "ACME"}, file_root=root),
        keyring=Keyring(KEYS, current=current),
        environment=environment or {},
    )


@given(st.binary(max_size=2000))
def test_what_was_sealed_opens_in_its_context(plain: bytes) -> None:
    sealed = a_store().seal(plain, context=CONTEXT)
    assert a_store().open(sealed, context=dict(reversed(CONTEXT.items()))) == plain


def test_the_same_secret_is_never_sealed_the_same_and_never_shows() -> None:
    secret = b"whsec_Zebra77Quagga"
    one, other = (a_store().seal(secret, context=CONTEXT) for _ in range(2))
    assert one != other
    assert b"Zebra" not in one


@pytest.mark.case("X66")
@pytest.mark.parametrize("changed", ["tenant", "uid", "field", "version"])
def test_an_envelope_moved_elsewhere_or_put_back_does_not_open(changed: str) -> None:
    sealed = a_store().seal(b"secret", context=CONTEXT)
    with pytest.raises(SecretTamperedError):
        a_store().open(sealed, context=CONTEXT | {changed: "another"})


@pytest.mark.case("X66")
def test_one_flipped_bit_anywhere_is_noticed() -> None:
    sealed = a_store().seal(b"secret", context=CONTEXT)
    for position in range(len(sealed) * 8):
        altered = bytearray(sealed)
        altered[position // 8] ^= 1 << position % 8
        with pytest.raises(SecretTamperedError):
            a_store().open(bytes(altered), context=CONTEXT)


@pytest.mark.case("X66")
def test_a_cut_or_empty_envelope_does_not_open() -> None:
    sealed = a_store().seal(b"secret", context=CONTEXT)
    for length in range(len(sealed)):
        with pytest.raises(SecretTamperedError):
            a_store().open(sealed[:length], context=CONTEXT)


def test_an_older_key_still_opens_what_was_sealed_under_it() -> None:
    sealed = a_store(current="k1").seal(b"secret", context=CONTEXT)
    assert a_store(current="k2").open(sealed, context=CONTEXT) == b"secret"


def test_without_a_key_nothing_is_sealed_and_nothing_opens() -> None:
    sealed = a_store().seal(b"secret", context=CONTEXT)
    keyless = TenantSecrets(Secrets(), keyring=Keyring.of(Secrets()), environment={})
    with pytest.raises(SecretUnavailableError):
        keyless.seal(b"secret", context=CONTEXT)
    with pytest.raises(SecretTamperedError, match="'k1'"):
        keyless.open(sealed, context=CONTEXT)


def test_the_key_is_base64_of_32_bytes() -> None:
    key = bytes([0xFB, 0xEF, 0xFF] * 10 + [0, 1])  # `+` and `/` in one alphabet, `-` and `_`
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        settings = Secrets(kek=SecretStr(encode(key).decode()), kek_id="k9")
        store = TenantSecrets(settings, keyring=Keyring.of(settings), environment={})
        sealed = store.seal(b"secret", context=CONTEXT)
        expected = TenantSecrets(
            settings, keyring=Keyring({"k9": key}, current="k9"), environment={}
        )
        assert expected.open(sealed, context=CONTEXT) == b"secret"


def test_the_previous_key_opens_until_it_is_removed() -> None:
    old, new = (base64.b64encode(bytes([byte]) * 32).decode() for byte in (1, 2))
    before = TenantSecrets.of(Secrets(kek=SecretStr(old), kek_id="k1"), Profile.SERVER)
    during = TenantSecrets.of(
        Secrets(
            kek=SecretStr(new),
            kek_id="k2",
            previous_kek=SecretStr(old),
            previous_kek_id="k1",
        ),
        Profile.SERVER,
    )
    after = TenantSecrets.of(Secrets(kek=SecretStr(new), kek_id="k2"), Profile.SERVER)
    sealed = before.seal(b"secret", context=CONTEXT)
    assert during.open(sealed, context=CONTEXT) == b"secret"
    with pytest.raises(SecretTamperedError):
        after.open(sealed, context=CONTEXT)
    again = during.reseal(sealed, context=CONTEXT)
    assert again is not None
    assert after.open(again, context=CONTEXT) == b"secret"
    assert during.reseal(again, context=CONTEXT) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"previous_kek": "x"}, "set both or none"),
        ({"previous_kek_id": "k1"}, "set both or none"),
        ({"previous_kek": "x", "previous_kek_id": "kek-1"}, "needs a new name"),
    ],
)
def test_a_rotation_needs_two_keys_with_different_names(
    changes: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Secrets.model_validate(changes)


@pytest.mark.parametrize("kek", ["", "short", "é" * 44, base64.b64encode(bytes(31)).decode()])
def test_another_form_of_key_is_refused_without_repeating_it(kek: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        Keyring.of(Secrets(kek=SecretStr(kek)))
    assert not kek or kek not in str(refusal.value)


def test_an_env_reference_resolves_to_the_variable_of_the_tenants_prefix() -> None:
    environment = {
        "DATARECS_CONN_ACME_LEDGER": "s3cr3t",
        f"DATARECS_CONN_{OTHER.hex.upper()}_A": "x",
    }
    store = a_store(environment=environment)
    assert store.resolve("env:DATARECS_CONN_ACME_LEDGER", tenant=TENANT, uses=()) == "s3cr3t"
    assert store.resolve(f"env:DATARECS_CONN_{OTHER.hex.upper()}_A", tenant=OTHER, uses=()) == "x"


@pytest.mark.case("X65")
@pytest.mark.parametrize("name", ["DATARECS_KEK", "DATARECS_CONN_ACME_LEDGER", "PATH"])
def test_a_variable_of_the_platform_or_of_another_tenant_is_refused_at_use(name: str) -> None:
    store = a_store(environment={name: "s3cr3t"})
    with pytest.raises(SecretRefusedError):
        store.resolve(f"env:{name}", tenant=OTHER, uses=())


@pytest.mark.parametrize("environment", [{}, {"DATARECS_CONN_ACME_LEDGER": ""}])
def test_a_variable_that_is_not_set_is_unavailable(environment: dict[str, str]) -> None:
    with pytest.raises(SecretUnavailableError, match="DATARECS_CONN_ACME_LEDGER"):
        a_store(environment=environment).resolve(
            "env:DATARECS_CONN_ACME_LEDGER", tenant=TENANT, uses=()
        )


def tenant_folder(root: Path) -> Path:
    folder = root / str(TENANT)
    folder.mkdir()
    return folder


def test_a_file_reference_resolves_to_the_first_line(tmp_path: Path) -> None:
    file = tenant_folder(tmp_path) / "ledger"
    file.write_bytes(b"s3cr3t \r\nsecond line\n")
    assert a_store(root=tmp_path).resolve(f"file:{file}", tenant=TENANT, uses=()) == "s3cr3t "


def test_a_mounted_secret_may_be_a_link_inside_its_folder(tmp_path: Path) -> None:
    folder = tenant_folder(tmp_path)
    (folder / "..data_1").mkdir()
    (folder / "..data_1" / "ledger").write_text("s3cr3t")
    (folder / "ledger").symlink_to("..data_1/ledger")
    assert (
        a_store(root=tmp_path).resolve(f"file:{folder}/ledger", tenant=TENANT, uses=()) == "s3cr3t"
    )


@pytest.mark.case("X65")
def test_a_file_outside_the_tenants_folder_is_refused_also_through_a_link(tmp_path: Path) -> None:
    folder = tenant_folder(tmp_path)
    (tmp_path / "others").write_text("s3cr3t")
    (folder / "link").symlink_to(tmp_path / "others")
    store = a_store(root=tmp_path)
    for place in ("/etc/shadow", f"{tmp_path}/others", f"{folder}/link", f"{folder}/../others"):
        with pytest.raises(SecretRefusedError):
            store.resolve(f"file:{place}", tenant=TENANT, uses=())


@pytest.mark.case("X56")
def test_a_pipe_or_folder_in_place_of_a_file_is_refused_and_never_waited_for(
    tmp_path: Path,
) -> None:
    folder = tenant_folder(tmp_path)
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    store = a_store(root=tmp_path)
    for name in ("pipe", "folder"):
        with pytest.raises((SecretRefusedError, SecretUnavailableError)):
            store.resolve(f"file:{folder}/{name}", tenant=TENANT, uses=())


@pytest.mark.parametrize("content", [None, b"", b"\nsecond", b"\xff\xfe"])
def test_a_missing_empty_or_unreadable_file_is_unavailable(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tenant_folder(tmp_path) / "ledger"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SecretUnavailableError):
        a_store(root=tmp_path).resolve(f"file:{file}", tenant=TENANT, uses=())


def test_the_store_of_a_service_reads_the_environment_of_its_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = Secrets(tenant_names={TENANT: "ACME"})
    store = TenantSecrets.of(settings, Profile.SERVER)
    monkeypatch.setenv("DATARECS_CONN_ACME_LATE", "s3cr3t")
    assert store.resolve("env:DATARECS_CONN_ACME_LATE", tenant=TENANT, uses=()) == "s3cr3t"


LEDGER = "env:DATARECS_CONN_ACME_LEDGER"
AT_LEDGER = SecretUse(purpose=SecretPurpose.POSTGRES, host="ledger.example.com")
ELSEWHERE = SecretUse(purpose=SecretPurpose.POSTGRES, host="evil.example.com")
AS_HEADER = SecretUse(purpose=SecretPurpose.WEBHOOK, host="ledger.example.com")


def bound_store(profile: Profile, **uses: tuple[str, ...]) -> TenantSecrets:
    return TenantSecrets(
        Secrets(
            tenant_names={TENANT: "ACME"}, uses={f"env:{name}": to for name, to in uses.items()}
        ),
        keyring=Keyring(KEYS, current="k1"),
        environment={"DATARECS_CONN_ACME_LEDGER": "s3cr3t"},
        profile=profile,
    )


@pytest.mark.case("X65")
@pytest.mark.parametrize("profile", Profile)
def test_a_bound_secret_goes_to_its_purpose_and_host_alone(profile: Profile) -> None:
    store = bound_store(profile, DATARECS_CONN_ACME_LEDGER=("postgres:Ledger.example.com.",))
    assert store.resolve(LEDGER, tenant=TENANT, uses=(AT_LEDGER,)) == "s3cr3t"
    for uses in ((ELSEWHERE,), (AS_HEADER,), (AT_LEDGER, ELSEWHERE)):
        with pytest.raises(SecretRefusedError, match="DATARECS_SECRETS__USES") as refused:
            store.resolve(LEDGER, tenant=TENANT, uses=uses)
        assert "s3cr3t" not in str(refused.value)


@pytest.mark.case("X65")
def test_without_a_binding_profile_server_sends_a_secret_nowhere() -> None:
    for use in (AT_LEDGER, AS_HEADER):
        with pytest.raises(SecretRefusedError):
            bound_store(Profile.SERVER).resolve(LEDGER, tenant=TENANT, uses=(use,))


def test_without_a_binding_profile_local_warns_once_and_opens_databases_alone() -> None:
    store = bound_store(Profile.LOCAL)
    with capture_logs() as lines:
        for _ in range(3):
            assert store.resolve(LEDGER, tenant=TENANT, uses=(AT_LEDGER,)) == "s3cr3t"
        with pytest.raises(SecretRefusedError):
            store.resolve(LEDGER, tenant=TENANT, uses=(AS_HEADER,))
    (line,) = lines
    assert (line["event"], line["use"]) == ("secret_not_bound", "postgres:ledger.example.com")
    assert "s3cr3t" not in str(line)


@pytest.mark.parametrize("text", ["postgres", "postgres:", "mail:relay", "url:a.example.com", ""])
def test_a_binding_that_cannot_be_read_stops_the_start(text: str) -> None:
    with pytest.raises(ValueError, match="use"):
        Secrets(uses={LEDGER: (text,)})
