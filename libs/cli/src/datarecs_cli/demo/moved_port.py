"""Updates the demo's connection when the port of the platform's database changes at a restart.

A busy port changes, and the stored connection has the old one. `up` does this; the demo writes all
declarations again.
"""

from typing import TYPE_CHECKING

from datarecs_cli.demo.declarations import LEDGER_CONNECTION

if TYPE_CHECKING:
    from datarecs_cli.client import Api

LOOPBACK = "127.0.0.1"


def correct_port(api: "Api", port: int) -> bool:
    """Write the port into the demo's connection; True if it was another port.

    Does nothing without a demo, or for a ledger in another database.

    Raises:
        RefusedError: the key has no permission.
        ServerUnreachableError: no answer.
    """
    from datarecs_cli.client import ApiRequest, path_of
    from datarecs_cli.refusals import RefusedError

    path = path_of("connections", LEDGER_CONNECTION)
    try:
        stored = api.send(ApiRequest(method="GET", path=path)).json()
    except RefusedError as refused:
        if refused.status == _NOT_FOUND:
            return False
        raise
    spec = stored["spec"]
    config = spec.get("config") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(config, dict):
        return False
    if config.get("host") != LOOPBACK or int(str(config.get("port"))) == port:
        return False
    body = {
        "apiVersion": stored["apiVersion"],
        "kind": stored["kind"],
        "metadata": {"name": LEDGER_CONNECTION},
        "spec": {**spec, "config": {**config, "port": port}},
    }
    headers = {"If-Match": "*"}
    api.send(
        ApiRequest(method="PUT", path=path, params={"apply": "true"}, headers=headers, body=body)
    )
    return True


_NOT_FOUND = 404
