import os
from pathlib import Path

import pytest

from datarecs_cli.stack.accounts import Account, obstacle, server_account

SOMEBODY = Account(name="somebody", uid=54_321, gid=54_321)


def find_of(*names: str) -> dict[str, Account]:
    return {name: Account(name=name, uid=1000 + at, gid=1000) for at, name in enumerate(names)}


def test_an_ordinary_user_runs_the_database_itself() -> None:
    assert server_account(effective_uid=1000) is None


@pytest.mark.case("K04")
def test_root_without_a_user_postgres_runs_the_database_as_nobody() -> None:
    account = server_account(effective_uid=0, find=find_of("nobody").get)
    assert account is not None
    assert account.name == "nobody"


def test_the_account_of_existing_data_comes_first() -> None:
    find = find_of("postgres", "nobody").get
    account = server_account(effective_uid=0, before="nobody", find=find)
    assert account is not None
    assert account.name == "nobody"


def test_root_without_any_usable_account_sees_which_were_tried() -> None:
    with pytest.raises(LookupError, match="postgres, datarecs, nobody"):
        server_account(effective_uid=0, find=find_of().get)


@pytest.mark.case("K03")
def test_a_closed_parent_is_named_with_its_mode(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    for component in (tmp_path, *tmp_path.parents):
        if component.stat().st_uid == os.geteuid() and component != Path("/"):
            component.chmod(component.stat().st_mode | 0o011)
    obstacle_text = obstacle(SOMEBODY, home / "project" / ".datarecs")
    assert obstacle_text is not None
    assert str(obstacle_text) == f"{home} has mode 0700"


def test_what_does_not_exist_yet_is_no_obstacle() -> None:
    assert obstacle(SOMEBODY, Path("/nonexistent/anything")) is None


def test_nobody_has_to_pass_when_the_database_runs_as_ourselves(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    assert obstacle(None, tmp_path) is None
