"""DR41: what goes wrong between a client of the REST API and its server, seen from the client.

Beside `api`, which is what a server refuses: these codes are raised where no server answered, or
where its answer could not be used, so the command line and other clients share them.
"""

from datarecs_core.errors.base import Entry, ErrorCode


class ClientCode(ErrorCode):
    """Raised by the command line; the exit code is 5 unless the error says otherwise."""

    SERVER_UNREACHABLE = Entry(
        docs_id="DR4101",
        meaning="The server of the platform does not answer.",
        causes="It is not running, its address or port is another one, or a network or proxy is in"
        " between.",
        remedy="Start it with `datarecs up`, look with `datarecs status`, or name its address with"
        " --server.",
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
        meaning="The API key was not sent, because the server it would reach is not safe.",
        causes="An http address outside this machine, or a key of the environment together with a"
        " server that only a file of the project names.",
        remedy="Use an https address, and name the server yourself with --server.",
    )
    UNEXPECTED_ANSWER = Entry(
        docs_id="DR4104",
        meaning="The server answered with something that this client does not understand.",
        causes="Another program listens at the address, a proxy answers in its place, or the server"
        " is of a newer release.",
        remedy="Check the address; compare `datarecs version` on both sides.",
    )
    WAITED_TOO_LONG = Entry(
        docs_id="DR4105",
        meaning="What was waited for had not happened, or not ended, within --timeout.",
        causes="The time was short, or the run is still queued or at work; it goes on.",
        remedy="Look again with `datarecs watch`, or wait longer.",
    )
    CREDENTIALS_UNREADABLE = Entry(
        docs_id="DR4106",
        meaning="The file of servers and keys cannot be used.",
        causes="It is not TOML, a context lacks `server` or `api_key`, or it may not be read.",
        remedy="Correct the file the message names; the local platform writes its own anew when it"
        " is deleted.",
    )
