"""DR41: what goes wrong between a client of the REST API and its server, seen from the client.

Beside `api`, the refusals of a server: these codes are raised where no server responded, or
where its response could not be used, so the command line and other clients share them.
"""

from datarecs_core.errors.base import Entry, ErrorCode


class ClientCode(ErrorCode):
    """Raised by the command line; the exit code is 5 unless the error has another one."""

    SERVER_UNREACHABLE = Entry(
        docs_id="DR4101",
        meaning="The server of the platform does not answer.",
        causes="It is not running, the address or port is wrong, or a network or proxy blocks the"
        " connection.",
        remedy="Start it with `datarecs up`, check it with `datarecs status`, or pass its address"
        " with --server.",
        retryable=True,
    )
    NO_SERVER_KNOWN = Entry(
        docs_id="DR4102",
        meaning="No server is configured, or there is no API key for it.",
        causes="No `.datarecs/credentials.toml` here or above, an unknown --context, or a --server"
        " for which neither a context nor DATARECS_API_KEY holds a key.",
        remedy="Start the local platform with `datarecs up`, log in to a server with `datarecs"
        " login`, or pass --server and set DATARECS_API_KEY.",
    )
    SERVER_NOT_TRUSTED = Entry(
        docs_id="DR4103",
        meaning="The API key was not sent, because it is not safe to send it to this server.",
        causes="An http address outside this machine, or a key of the environment together with a"
        " server that only a file of the project names.",
        remedy="Use an https address, and pass the server with --server.",
    )
    UNEXPECTED_ANSWER = Entry(
        docs_id="DR4104",
        meaning="The server answered in a form that this client cannot read.",
        causes="Another program listens at the address, a proxy responds in its place, or the"
        " server has a newer release.",
        remedy="Check the address; compare `datarecs version` on both sides.",
    )
    WAITED_TOO_LONG = Entry(
        docs_id="DR4105",
        meaning="The awaited event has not occurred, or the run has not ended, within --timeout.",
        causes="The time was short, or the run is still queued or running; it continues.",
        remedy="Check again with `datarecs watch`, or wait longer.",
    )
    CREDENTIALS_UNREADABLE = Entry(
        docs_id="DR4106",
        meaning="The file of servers and keys cannot be used.",
        causes="It is not TOML, cannot be read, or a context has no `server` or `api_key`.",
        remedy="Correct the file the message names; the local platform writes its file again when"
        " it is deleted.",
    )
    ARGUMENT_INVALID = Entry(
        docs_id="DR4107",
        meaning="An argument of a call of the Python package cannot be used.",
        causes="A file is missing, a table has a column that Arrow cannot represent, or arguments"
        " contradict each other.",
        remedy="Correct the argument that the message names; `help(datarecs.compare)` describes"
        " all of them.",
    )
