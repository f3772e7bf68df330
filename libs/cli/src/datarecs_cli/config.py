"""The server of a command, and the key for it.

A leaked key cannot be taken back, so the rules are in one module. A key of a file is sent only to
the server of that file. A key of the environment is sent only to a server that the user named, or
to this machine. Source: spec experience 3.1.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Invocation
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.client import ClientCode

API_KEY = "DATARECS_API_KEY"
PROJECT_CREDENTIALS = Path(".datarecs/credentials.toml")
USER_CREDENTIALS = Path("~/.config/datarecs/credentials.toml")
FIRST_CONTEXT = "local"
"""The file that `datarecs up` writes."""
_PORTS = {"http": 80, "https": 443}


class NoServerKnownError(DatarecsError):
    """No server is configured, or there is no key for it."""

    code = ClientCode.NO_SERVER_KNOWN
    exit_code = ExitCode.SERVER


class ServerNotTrustedError(DatarecsError):
    """Sending the key to this server would disclose it."""

    code = ClientCode.SERVER_NOT_TRUSTED
    exit_code = ExitCode.SERVER


class CredentialsUnreadableError(DatarecsError):
    """The message repeats nothing of the file's content, because it holds keys."""

    code = ClientCode.CREDENTIALS_UNREADABLE
    exit_code = ExitCode.SERVER

    def __init__(self, *, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A server and the key for it."""

    server: str
    """Scheme, host and port, without a slash at the end."""
    api_key: str = field(repr=False)

    @property
    def is_local(self) -> bool:
        return _is_loopback(self.server)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Context:
    name: str
    access: Access
    by_user: bool
    """From the user's file; a project's file may come from another person's project."""


def access_of(
    invocation: Invocation, environment: Mapping[str, str], *, folder: Path, home: Path
) -> Access:
    """The server and key of this command.

    Args:
        invocation: with --server and --context.
        environment: DATARECS_API_KEY wins over the key of a file.
        folder: the working folder; the project's file is here or in a parent folder.
        home: the user's home, for the user's file.

    Raises:
        NoServerKnownError: no server, or no key for it.
        ServerNotTrustedError: the key would be sent without https, or to a server that the user
            did not name.
        CredentialsUnreadableError: a file exists and cannot be used.
    """
    contexts = [*_project(folder), *_user(home)]
    environment_key = environment.get(API_KEY, "").strip()
    if invocation.server is not None:
        access = _named_server(_origin(invocation.server), environment_key, contexts)
    else:
        access = _of_context(_chosen(contexts, invocation.context), environment_key)
    _refuse_leak(access)
    return access


def access_for(server: str, api_key: str) -> Access:
    """Check a server and its key before they are stored.

    Raises:
        NoServerKnownError, ServerNotTrustedError: as `access_of`.
    """
    access = Access(server=_origin(server), api_key=api_key)
    _refuse_leak(access)
    return access


def _refuse_leak(access: Access) -> None:
    if not access.is_local and urlsplit(access.server).scheme != "https":
        raise ServerNotTrustedError(f"{access.server}: a key is sent only over https")
    if not access.api_key.isascii() or not access.api_key.isprintable():
        raise NoServerKnownError(f"the API key for {access.server} is not plain text")


def credential_files(folder: Path, home: Path) -> tuple[Path, ...]:
    """The files of contexts, the project's first; a file need not exist."""
    return (_project_file(folder) or folder / PROJECT_CREDENTIALS, _user_file(home))


def _named_server(server: str, environment_key: str, contexts: list[_Context]) -> Access:
    if environment_key:
        return Access(server=server, api_key=environment_key)
    for context in contexts:
        if context.access.server == server:
            return context.access
    raise NoServerKnownError(f"no API key for {server}: set {API_KEY}")


def _of_context(context: _Context, environment_key: str) -> Access:
    if not environment_key:
        return context.access
    server = context.access.server
    if not context.by_user and not context.access.is_local:
        raise ServerNotTrustedError(
            f"the server {server} comes from a file of the project, the key from {API_KEY};"
            " name the server with --server"
        )
    return Access(server=server, api_key=environment_key)


def _chosen(contexts: list[_Context], name: str | None) -> _Context:
    if not contexts:
        raise NoServerKnownError("no server is configured here; name one with --server")
    by_name = {context.name: context for context in reversed(contexts)}
    match = by_name.get(name or FIRST_CONTEXT) or (contexts[0] if name is None else None)
    if match is None:
        known = ", ".join(sorted(by_name))
        raise NoServerKnownError(f"unknown context {name!r}; known: {known}")
    return match


def _project(folder: Path) -> Iterator[_Context]:
    path = _project_file(folder)
    if path is not None:
        yield from _contexts(path, by_user=False)


def _project_file(folder: Path) -> Path | None:
    places = (parent / PROJECT_CREDENTIALS for parent in (folder, *folder.parents))
    return next((path for path in places if path.is_file()), None)


def _user(home: Path) -> Iterator[_Context]:
    path = _user_file(home)
    if path.is_file():
        yield from _contexts(path, by_user=True)


def _user_file(home: Path) -> Path:
    return home / USER_CREDENTIALS.relative_to("~")


def _contexts(path: Path, *, by_user: bool) -> Iterator[_Context]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as cause:
        reason = getattr(cause, "strerror", None) or "it is not TOML"
        raise CredentialsUnreadableError(path=path, reason=reason) from cause
    for name, table in tables.items():
        fields = table if isinstance(table, dict) else {}
        server, key = fields.get("server"), fields.get("api_key")
        if not isinstance(server, str) or not isinstance(key, str):
            raise CredentialsUnreadableError(
                path=path, reason=f"the context {name!r} needs `server` and `api_key`"
            )
        access = Access(server=_origin(server), api_key=key)
        yield _Context(name=name, access=access, by_user=by_user)


def _origin(text: str) -> str:
    """Scheme, host and port in one spelling; a path is refused, since the API is at the root.

    Raises:
        NoServerKnownError: not such an address.
    """
    if "://" not in text:
        text = f"{'http' if _is_loopback(f'//{text}') else 'https'}://{text}"
    try:
        parts = urlsplit(text)
        port = parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError):
        raise NoServerKnownError("the server must be an http or https address") from None
    if not parts.hostname or parts.username or parts.path.strip("/") or parts.query:
        raise NoServerKnownError("the server must be a scheme, a host and a port, without a path")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{port}" if port != _PORTS[parts.scheme] else "")


def _is_loopback(server: str) -> bool:
    try:
        host = urlsplit(server).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
