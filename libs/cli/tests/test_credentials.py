from base64 import urlsafe_b64decode
from pathlib import Path

from datarecs_cli.stack.credentials import (
    Credentials,
    LocalSecrets,
    read_credentials,
    write_credentials,
    write_private,
)


def test_a_password_is_made_once_and_only_we_may_read_it(tmp_path: Path) -> None:
    secrets = LocalSecrets(tmp_path)
    first = secrets.password("kafka-relay")
    assert LocalSecrets(tmp_path).password("kafka-relay") == first
    assert len(first) >= 32
    assert secrets.path("kafka-relay").stat().st_mode & 0o077 == 0


def test_no_two_secrets_are_alike(tmp_path: Path) -> None:
    made = LocalSecrets(tmp_path).passwords(f"role-{number}" for number in range(20))
    assert len(set(made.values())) == 20


def test_the_key_encryption_key_is_32_bytes_and_stays(tmp_path: Path) -> None:
    path = LocalSecrets(tmp_path).kek()
    first = path.read_bytes()
    assert len(urlsafe_b64decode(first)) == 32
    assert LocalSecrets(tmp_path).kek().read_bytes() == first


def test_a_private_file_is_replaced_whole_with_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "url"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o600)
    assert [one.name for one in tmp_path.iterdir()] == ["url"]


def test_credentials_survive_their_file_and_do_not_show_the_key(tmp_path: Path) -> None:
    path = tmp_path / "credentials.toml"
    assert read_credentials(path) is None
    written = Credentials(
        server="http://127.0.0.1:8080", tenant="default", tenant_id="0193", api_key="drk_x_y"
    )
    write_credentials(path, written)
    assert read_credentials(path) == written
    assert "drk_x_y" not in repr(written)
