import pytest

from datarecs_core.access.references import (
    ReferenceKind,
    ReferenceRules,
    SecretPurpose,
    SecretReference,
    SecretUse,
    check_reference,
    check_use,
    normal_host,
    parse_use,
)
from datarecs_core.errors.security import SecretRefusedError

RULES = ReferenceRules(env_prefix="DATARECS_CONN_ACME_", file_root="/secrets/acme")


@pytest.mark.parametrize(
    ("text", "kind", "place"),
    [
        ("env:DATARECS_CONN_ACME_LEDGER", ReferenceKind.ENV, "DATARECS_CONN_ACME_LEDGER"),
        ("file:/secrets/acme/ledger", ReferenceKind.FILE, "/secrets/acme/ledger"),
        ("file:/secrets/acme/a/b:c", ReferenceKind.FILE, "/secrets/acme/a/b:c"),
    ],
)
def test_a_reference_within_the_tenant_is_accepted(
    text: str, kind: ReferenceKind, place: str
) -> None:
    assert check_reference(text, RULES) == SecretReference(kind=kind, place=place)


@pytest.mark.case("X65")
@pytest.mark.parametrize(
    "text",
    [
        "env:DATARECS_KEK",
        "env:DATARECS_CONN_OTHER_LEDGER",
        "env:DATARECS_CONN_ACME_",
        "env:",
        "env:datarecs_conn_acme_x",
        "env:DATARECS_CONN_ACME_A=B",
        "env:DATARECS_CONN_ACMEX_A",
        "file:/etc/shadow",
        "file:/secrets/acme",
        "file:/secrets/acme/../other/x",
        "file:ledger",
        "file:/secrets/acme2/x",
        "file:/secrets/acme//x",
        "file:/secrets/acme/./x",
        "file:",
        "file:/secrets/acme/a\x00b",
        "k8s:other/name/key",
        "vault:a#b",
        "plain-password",
        "",
        "env:DATARECS_CONN_ACME_" + "A" * 1024,
        "stored:1",
    ],
)
def test_a_reference_outside_the_tenant_is_refused(text: str) -> None:
    with pytest.raises(SecretRefusedError):
        check_reference(text, RULES)


def test_without_a_secret_folder_no_file_can_be_referred_to() -> None:
    with pytest.raises(SecretRefusedError):
        check_reference("file:/a", ReferenceRules(env_prefix="X_", file_root=None))


@pytest.mark.case("X68")
@pytest.mark.parametrize("secret", ["hunter2-password", "p@ss:word"])
def test_a_password_written_in_place_of_a_reference_is_not_repeated(secret: str) -> None:
    with pytest.raises(SecretRefusedError) as refusal:
        check_reference(secret, RULES)
    assert secret.partition(":")[0] not in str(refusal.value)


LEDGER = "file:/secrets/acme/ledger"


@pytest.mark.case("X65")
@pytest.mark.parametrize("purpose", SecretPurpose)
@pytest.mark.parametrize("host", ["ledger.example.com", "evil.example.com"])
def test_a_reference_is_used_only_as_its_binding_allows(purpose: SecretPurpose, host: str) -> None:
    bound = SecretUse(purpose=SecretPurpose.POSTGRES, host="ledger.example.com")
    rules = ReferenceRules(env_prefix="X_", file_root=None, uses={LEDGER: frozenset({bound})})
    use = SecretUse(purpose=purpose, host=host)
    if use == bound:
        assert check_use(LEDGER, use, rules)
    else:
        with pytest.raises(SecretRefusedError, match=str(use)):
            check_use(LEDGER, use, rules)


def test_a_free_purpose_needs_no_binding_until_there_is_one() -> None:
    use = SecretUse(purpose=SecretPurpose.POSTGRES, host="a")
    free = frozenset({SecretPurpose.POSTGRES})
    assert not check_use(LEDGER, use, ReferenceRules(env_prefix="X_", file_root=None, free=free))
    elsewhere = {LEDGER: frozenset({SecretUse(purpose=SecretPurpose.POSTGRES, host="b")})}
    rules = ReferenceRules(env_prefix="X_", file_root=None, free=free, uses=elsewhere)
    with pytest.raises(SecretRefusedError):
        check_use(LEDGER, use, rules)


@pytest.mark.parametrize("text", ["postgres:db.example.com", "iceberg:10.0.0.1", "url"])
def test_a_use_is_written_as_it_is_read(text: str) -> None:
    assert str(parse_use(text)) == text


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("DB.Example.com.", "db.example.com"),
        ("[::1]", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("bücher.example", "xn--bcher-kva.example"),
    ],
)
def test_one_host_has_one_spelling(written: str, plain: str) -> None:
    assert normal_host(written) == plain
