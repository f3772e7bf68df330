"""`datarecs login`, `logout`, `whoami`: the server and key that the other commands use.

A key is read only from stdin: a flag would appear in the shell's history and the process list.
"""

import sys
from pathlib import Path
from urllib.parse import urlsplit

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import UsageFault, current
from datarecs_cli.output import Column, cell, print_json, print_list

_LONGEST_KEY = 4096
_WHO = (
    Column(title="SUBJECT", member="subject"),
    Column(title="OWNER", member="owner"),
    Column(title="TENANT", member="tenant_id"),
    Column(title="KEY", member="key_id"),
    Column(title="SERVER", member="server"),
    Column(title="PERMISSIONS", member="permissions"),
)


def login() -> ExitCode:
    """Store the key of a server for later commands; the key is read from stdin.

    --server is the address of the server, --context the name under which the key is stored
    (default: the host). The key is checked and then stored in
    ~/.config/datarecs/credentials.toml, which only you can read.
    """
    from datarecs_cli.client import Api
    from datarecs_cli.config import access_for
    from datarecs_cli.contexts import store_context

    invocation = current()
    if invocation.server is None:
        raise UsageFault("login: name the server, such as --server https://datarecs.example.com")
    access = access_for(invocation.server, _key(no_input=invocation.no_input))
    with Api(access, limit_s=invocation.timeout_s) as api:
        who = api.get("whoami")
    name = invocation.context or urlsplit(access.server).hostname or access.server
    path = store_context(Path.home(), name, access)
    if invocation.is_json:
        print_json("login", {"context": name, "server": access.server, "file": str(path)})
    else:
        print(f"logged in to {access.server} as {cell(who.get('subject'))}, context {cell(name)}")
    return ExitCode.DONE


def logout() -> ExitCode:
    """Remove a context and its key from your credentials file; the key itself stays valid.

    To revoke the key: datarecs key revoke KEY
    """
    from datarecs_cli.contexts import remove_context

    invocation = current()
    if invocation.context is None:
        raise UsageFault("logout: --context NAME is missing; see: datarecs config path")
    path = remove_context(Path.home(), invocation.context)
    if path is None:
        raise UsageFault(f"no context {invocation.context!r} in your credentials file")
    invocation.say(f"removed context {invocation.context} from {path}")
    return ExitCode.DONE


def whoami() -> ExitCode:
    """Show the current server, the principal of the key, and its permissions."""
    from datarecs_cli.client import connect

    invocation = current()
    with connect(invocation) as api:
        who = {**api.get("whoami"), "server": api.server}
    if invocation.is_json:
        print_json("whoami", who)
        return ExitCode.DONE
    permissions = who["permissions"]
    shown = " ".join(permissions) if isinstance(permissions, list) else permissions
    print_list("whoami", _WHO, [{**who, "permissions": shown}], invocation)
    return ExitCode.DONE


def _key(*, no_input: bool) -> str:
    if sys.stdin.isatty() and not no_input:
        from getpass import getpass

        return getpass("API key: ").strip()
    key = "" if sys.stdin.isatty() else sys.stdin.read(_LONGEST_KEY).strip()
    if not key:
        raise UsageFault("login reads the key from stdin, such as: datarecs login … < key.txt")
    return key
