"""Keys made of the key-encryption key: the same everywhere, another per tenant and purpose."""

import base64
from uuid import UUID

import pytest
from pydantic import SecretStr

from datarecs_core.errors.process import SettingsError
from datarecs_runtime.derived_keys import derived_key
from datarecs_runtime.sections import Secrets

TENANT, OTHER = UUID(int=1), UUID(int=2)
KEK = base64.urlsafe_b64encode(b"\xfb\xff" * 16).decode()


def with_key(kek: str) -> Secrets:
    return Secrets(kek=SecretStr(kek))


def test_a_key_written_url_safe_is_read_as_it_was_written() -> None:
    assert {"-", "_"} & set(KEK)
    assert len(derived_key(with_key(KEK), tenant=TENANT, purpose="break-ids")) == 32


def test_tenant_and_purpose_each_make_another_key() -> None:
    keys = {
        derived_key(with_key(KEK), tenant=tenant, purpose=purpose)
        for tenant in (TENANT, OTHER, None)
        for purpose in ("break-ids", "cursors")
    }
    assert len(keys) == 6


@pytest.mark.parametrize("kek", ["", "short", KEK[:-1], "!" * 44])
def test_what_is_no_key_is_reported_before_anything_is_keyed_by_it(kek: str) -> None:
    with pytest.raises(SettingsError, match="DATARECS_SECRETS__KEK"):
        derived_key(with_key(kek), tenant=TENANT, purpose="cursors")


def test_without_a_key_there_is_none() -> None:
    with pytest.raises(SettingsError, match="missing"):
        derived_key(Secrets(), tenant=None, purpose="cursors")


def test_the_id_key_stays_when_the_key_encryption_key_changes() -> None:
    rotated = Secrets(kek=SecretStr(base64.b64encode(bytes(32)).decode()), id_key=SecretStr(KEK))
    for purpose in ("break-ids", "cursors"):
        assert derived_key(rotated, tenant=TENANT, purpose=purpose) == derived_key(
            with_key(KEK), tenant=TENANT, purpose=purpose
        )
    with pytest.raises(SettingsError, match="DATARECS_SECRETS__ID_KEY"):
        derived_key(Secrets(id_key=SecretStr("short")), tenant=TENANT, purpose="cursors")
