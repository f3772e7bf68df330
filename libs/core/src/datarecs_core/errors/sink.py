"""DR7: why a sink stops, waits, or refuses a record, a table or a topic."""

from datarecs_core.errors.base import DatarecsError, Entry, ErrorCode

MOST_PATH_CHARACTERS = 500


class SinkCode(ErrorCode):
    TOPIC_REFUSED = Entry(
        docs_id="DR7001",
        meaning="The login of the connection cannot read a topic of the sink, write its control "
        "topic or join its group.",
        causes="A topic that does not exist, or a login without the rights.",
        remedy="Create the topic, or give the login the rights that the page on sinks lists.",
    )
    SINK_TABLE_TAKEN = Entry(
        docs_id="DR7002",
        meaning="Another SinkTable writes to a table that this one names.",
        causes="Two declarations with the same catalog, namespace and name, also by two "
        "connections that lead to one catalog.",
        remedy="Name another table, or delete the other SinkTable first.",
    )
    FORMAT_VERSION_UNSUPPORTED = Entry(
        docs_id="DR7003",
        meaning="The table has a format version that the sink does not write.",
        causes="Format version 3; in the modes upsert and cdc also 1, which has no deletes.",
        remedy="Use a table of format version 2; append writes version 1 too.",
    )
    FILE_FORMAT_UNSUPPORTED = Entry(
        docs_id="DR7004",
        meaning="The table asks for files that are not Parquet.",
        causes="The property write.format.default is avro or orc.",
        remedy="Set the property to parquet.",
    )
    IDENTIFIER_MISSING = Entry(
        docs_id="DR7005",
        meaning="The columns that identify a row are missing, or cannot identify one.",
        causes="The first records have no value for a column of id_columns, or it is a fraction, "
        "an object or a list. In the modes upsert and cdc: a table without identifier fields and "
        "no id_columns, or a column that is optional.",
        remedy="Name columns of text, whole numbers or booleans that each record has; in an "
        "existing table they must be required.",
    )
    PARTITION_TERM_INVALID = Entry(
        docs_id="DR7006",
        meaning="A term of partition_by is not one, or its column cannot be partitioned so.",
        causes="A mistake in the name of a column or a transform.",
        remedy="Write col, year(col), month(col), day(col), hour(col), bucket(16, col) or "
        "truncate(4, col).",
    )
    LINEAGE_MISMATCH = Entry(
        docs_id="DR7010",
        meaning="The cluster, the control topic or a source topic is another one than at the last "
        "commit.",
        causes="A topic was deleted and created again, or the cluster was rebuilt.",
        remedy="Check that the source topics still have the records after the accepted positions, "
        "then use the verb reset.",
    )
    CONTROL_GAP = Entry(
        docs_id="DR7011",
        meaning="Messages of the control topic that are needed were removed.",
        causes="The sink stood still for longer than the retention of its control topic.",
        remedy="Use the verb reset; records after the accepted positions are read again.",
    )
    SOURCE_GAP = Entry(
        docs_id="DR7012",
        meaning="A source topic does not have the position at which the sink goes on.",
        causes="The sink stood still for longer than the retention of the topic, so that records "
        "were removed before they were written; a reset named a position above the end; or the "
        "topic lost records.",
        remedy="Use the verb reset with a position that the topic has; records that were removed "
        "are lost.",
    )
    TABLE_ROLLED_BACK = Entry(
        docs_id="DR7013",
        meaning="A table was rolled back to a snapshot before the last commit of the sink.",
        causes="Somebody rolled it back, or restored an older state.",
        remedy="Roll the table forward again, and the sink goes on by itself; or decide with the "
        "verb accept-table whether the records of the lost snapshots are committed again or left "
        "out.",
    )
    TABLE_LOST = Entry(
        docs_id="DR7014",
        meaning="A table of the sink does not exist, or is another one than before.",
        causes="It was dropped, renamed or created again.",
        remedy="Create or restore it. To go on with a table that replaced it, decide with the verb "
        "accept-table whether records that wait go into it or are left out; the whole sink waits "
        "until then.",
    )
    COMMIT_FAILED = Entry(
        docs_id="DR7015",
        meaning="A commit failed several times in a row.",
        causes="The catalog or the store of the table refuses or does not answer.",
        remedy="Read the message, mend the cause; the sink retries by itself.",
        retryable=True,
    )
    BAD_RECORD = Entry(
        docs_id="DR7016",
        meaning="A record cannot be written to the table without changing its meaning.",
        causes="A value that is no JSON object or no record in Avro, of a type that the column "
        "cannot hold, or without a required column.",
        remedy="Correct the table or the producer and use the verb retry; or declare errors with "
        "tolerance dead_letter, where they are not.",
    )
    SCAN_LIMIT_EXCEEDED = Entry(
        docs_id="DR7017",
        meaning="A commit would search too many rows of the table for those that it replaces.",
        causes="A large table whose partitions or bounds do not narrow the search.",
        remedy="Sort or partition the table by its id columns, and compact it; the sink goes on "
        "by itself then.",
    )
    FILE_LOCATION_REFUSED = Entry(
        docs_id="DR7018",
        meaning="The files of the table would be written outside of the places that its connection "
        "may use.",
        causes="A location of the table, or write.data.path, in another bucket or folder.",
        remedy="Move the table, or declare a connection for that place.",
    )
    BROKER_TIMEOUT = Entry(
        docs_id="DR7019",
        meaning="The broker did not answer within a transaction.",
        causes="A broker that is overloaded or unreachable.",
        remedy="Check the broker; the sink starts again by itself and loses nothing.",
        retryable=True,
    )
    CATALOG_UNSUPPORTED = Entry(
        docs_id="DR7020",
        meaning="The sink cannot write through this catalog.",
        causes="A hadoop catalog, which cannot refuse a commit that is based on an old state.",
        remedy="Use a rest or sql catalog.",
    )
    RECORD_TOO_LARGE = Entry(
        docs_id="DR7021",
        meaning="A record is larger than a sink reads.",
        causes="A value above 16 MiB; or a bad record, of which the topic of dead letters takes no "
        "copy because of its size.",
        remedy="Use the verb reset with the position after this record, which then is in no table "
        "and no dead letter; and send smaller records. The tolerance for errors does not help.",
    )
    CONTROL_DAMAGED = Entry(
        docs_id="DR7022",
        meaning="A message of the sink's own control topic cannot be read.",
        causes="Another program writes to the topic, or a newer release did.",
        remedy="Let only this sink write to its control topic, then use the verb reset.",
    )
    TASK_CRASHED = Entry(
        docs_id="DR7023",
        meaning="The process of a task ended without a report, or did not start.",
        causes="Too little memory, or a defect.",
        remedy="Read the log of iceberg-sink at this time and give it more memory; the task starts "
        "again by itself and loses nothing.",
        retryable=True,
    )
    SINK_NOT_STARTED = Entry(
        docs_id="DR7024",
        meaning="The verb needs a sink that has begun, and this one has not.",
        causes="Its connections or tables do not serve it, or it was declared a moment ago.",
        remedy="Correct what the condition Ready names; if it names nothing, repeat the request in "
        "a few seconds.",
    )
    TABLES_DIFFER = Entry(
        docs_id="DR7025",
        meaning="A reset without positions would lose records or write them twice, because the "
        "tables of the sink hold different ones.",
        causes="A table was rolled back, dropped or takes no commits, and another one went on.",
        remedy="Use the verb accept-table for a table that was rolled back, dropped or created "
        "again, and let the sink commit; or name the position of every partition.",
    )
    DECISION_OPEN = Entry(
        docs_id="DR7026",
        meaning="A decision about another table of the sink is being carried out.",
        causes="The verb accept-table for two tables in a row.",
        remedy="Wait until the status of the sink shows what came of the first one, and repeat it.",
    )


class SinkError(DatarecsError):
    """A fault of a sink, with the code of its family and a message for people."""

    def __init__(self, code: SinkCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class BadRecordError(DatarecsError):
    """A record that cannot be written; the message names the path and the reason, no value.

    Names in a path come from the record, so a long path is cut.
    """

    code = SinkCode.BAD_RECORD

    def __init__(self, *, path: str, reason: str, at: int = -1) -> None:
        if len(path) > MOST_PATH_CHARACTERS:
            path = f"{path[:MOST_PATH_CHARACTERS]}…"
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path, self.reason, self.at = path, reason, at
        """`at`: index in the batch that was given; -1 where no single record is at fault."""
