"""DR3: why a run has no verdict, finer than the four codes of the wire, and what runs refuse.

A member of `RunDetail` travels as `detail_code` under its run-level code (D19); names and ids are
published, they are added and never reused. Separate from the rules, so that a page can be printed.
"""

from datarecs_core.errors.base import Entry, ErrorCode, RunErrorCode


class RunDetail(ErrorCode):
    """The `detail_code` of an error of a run, a stage or an extraction."""

    CONNECTION_FAILED = Entry(
        docs_id="DR3001",
        meaning="A source could not be reached, refused the login, or has no connection.",
        causes="Wrong address, port, password or certificate; the system is down; an egress rule; "
        "a connection that was deleted or never applied.",
        remedy="The message names the source or connection and the step; correct it with "
        "`datarecs get connection NAME`, or apply the connection, and run again.",
        retryable=True,
        run_code=RunErrorCode.QUERY_FAILED,
    )
    PERMISSION_DENIED = Entry(
        docs_id="DR3002",
        meaning="The login of a source may not read an object that the job names.",
        causes="A missing grant on the table, schema, bucket or file.",
        remedy="Grant the read right to the connection's login; the message names the object.",
        run_code=RunErrorCode.QUERY_FAILED,
    )
    QUERY_ERROR = Entry(
        docs_id="DR3003",
        meaning="A source could not execute the read.",
        causes="A table or topic that does not exist; a filter or cast that the source does not "
        "accept.",
        remedy="Read the message of the source and correct the name of the table or topic, or the "
        "filter, query or cast, in it; `datarecs plan` shows the read of each source.",
        run_code=RunErrorCode.QUERY_FAILED,
    )
    COLUMN_NOT_FOUND = Entry(
        docs_id="DR3004",
        meaning="A source has no column with the name in the job.",
        causes="A renamed column, a typing error, another case: names match exactly.",
        remedy="The message lists the existing columns; correct the job or map the column.",
        run_code=RunErrorCode.QUERY_FAILED,
    )
    AMBIGUOUS_COLUMN = Entry(
        docs_id="DR3005",
        meaning="A name matches more than one column of a source.",
        causes="The same header twice in a file, the same name twice in a query.",
        remedy="Give the columns different names in the file, or aliases in the query.",
        run_code=RunErrorCode.QUERY_FAILED,
    )
    SNAPSHOT_LOST = Entry(
        docs_id="DR3006",
        meaning="Pinned data of a source changed or was removed before the run read it.",
        causes="A file was replaced or deleted, a snapshot of a table expired, a database session "
        "ended.",
        remedy="Run again; keep files unchanged while a run reads them, keep snapshots longer, or "
        "raise `snapshot.max_hold`.",
        retryable=True,
        run_code=RunErrorCode.QUERY_FAILED,
    )
    OFFSET_OUT_OF_RANGE = Entry(
        docs_id="DR3007",
        meaning="A topic of a source does not have the offsets to read.",
        causes="A retention of the topic that removed pinned offsets before they were read; "
        "`snapshot.from` or `snapshot.to` outside the topic, or a partition that it does not have.",
        remedy="The message names the partition and the offsets that it has; correct "
        "`snapshot.from` and `snapshot.to` of the source, or raise the topic's retention if it "
        "removed records before they were read.",
        run_code=RunErrorCode.QUERY_FAILED,
    )
    NO_FILES = Entry(
        docs_id="DR3008",
        meaning="A file source matched no file.",
        causes="Another path or pattern, or files that have not arrived.",
        remedy="The message names the pattern; check the path, or wait for the delivery.",
        run_code=RunErrorCode.QUERY_FAILED,
    )
    CORRUPT_SOURCE = Entry(
        docs_id="DR3009",
        meaning="A file or record of a source cannot be read in its declared format.",
        causes="A broken upload, a Kafka record that is not what `decode` says, a wrong checksum, "
        "an unterminated quote, a NUL byte, another encoding such as UTF-16, a name that ends in "
        "`.gz` or `.zst` on a file without this compression.",
        remedy="The message names file and line or row group, or topic, partition and offset, and "
        "the reason; deliver the file again. Of a topic begin behind the record with "
        "`snapshot.from`; another `decode` helps if every value has it.",
        run_code=RunErrorCode.QUERY_FAILED,
    )
    SOURCE_LIMIT = Entry(
        docs_id="DR3010",
        meaning="A source is larger than the limit for rows, bytes, files, columns or a value.",
        causes="More data than planned, or a compressed file that unpacks to more than 200 times "
        "its size.",
        remedy="Raise the limit that the message names, narrow the source by a filter, or deliver "
        "the file unpacked.",
        run_code=RunErrorCode.QUERY_FAILED,
    )
    SOURCE_UNSUPPORTED = Entry(
        docs_id="DR3011",
        meaning="A source uses a type, version or feature that the connector cannot read.",
        causes="A column type that cannot be compared, an archive such as zip or tar, a format "
        "other than the one declared, an encrypted file, a pipe or device, a server that is too "
        "old, a filter or query that the connector does not support, a part of datarecs that is "
        "not installed.",
        remedy="Follow the message: leave the column out, cast it in the source, unpack or convert "
        "the file, or install the part.",
        run_code=RunErrorCode.QUERY_FAILED,
    )
    SCHEMA_CHANGED = Entry(
        docs_id="DR3012",
        meaning="A source's columns changed while it was read, or its files have different "
        "columns.",
        causes="A migration during the run; files with different headers under one path.",
        remedy="Write the files with the same columns or read them as separate sources; the "
        "message names two files and their columns. After a migration run again.",
        run_code=RunErrorCode.QUERY_FAILED,
    )
    STATEMENT_TIMEOUT = Entry(
        docs_id="DR3013",
        meaning="A statement of a source took longer than the time limit of the source.",
        causes="A missing index, a lock, a busy server.",
        remedy="Raise `statement_timeout` of the connection, or make the read cheaper.",
        retryable=True,
        run_code=RunErrorCode.QUERY_FAILED,
    )
    DEADLINE_EXCEEDED = Entry(
        docs_id="DR3014",
        meaning="The run did not end before its deadline, which covers all attempts.",
        causes="More data than usual, a slow source, too few workers.",
        remedy="Raise `execution.deadline` of the job or the run's deadline, or narrow what is "
        "compared.",
        run_code=RunErrorCode.TIMED_OUT,
    )
    QUEUE_TIMEOUT = Entry(
        docs_id="DR3015",
        meaning="No worker took the run within the time a run may wait.",
        causes="No worker is running, or all are busy for a day.",
        remedy="Start workers (`datarecs status` shows them), then run again.",
        retryable=True,
        run_code=RunErrorCode.TIMED_OUT,
    )
    OUT_OF_MEMORY = Entry(
        docs_id="DR3016",
        meaning="The run needed more memory than its limit.",
        causes="Very wide rows, very many groups, or a small limit or Java heap.",
        remedy="Raise the worker's memory (DATARECS_WORKER__CHILD_MEMORY_MB) and Java heap "
        "(DATARECS_SPARK__DRIVER_MEMORY), of `datarecs compare` execution.memory (--memory), or "
        "compare in stages that narrow.",
        run_code=RunErrorCode.CRASHED,
    )
    KILLED = Entry(
        docs_id="DR3017",
        meaning="A signal from outside ended the run's process.",
        causes="The operating system, an operator, a node that went down.",
        remedy="Check the machine's log at the end of the run, then run again.",
        retryable=True,
        run_code=RunErrorCode.CRASHED,
    )
    TERMINATED = Entry(
        docs_id="DR3018",
        meaning="The run's process ended by itself without a result.",
        causes="A crash of Java or of a native library, or a host that removed the process.",
        remedy="Read the worker's log of the attempt; report it if it repeats.",
        run_code=RunErrorCode.CRASHED,
    )
    DRIVER_LOST = Entry(
        docs_id="DR3019",
        meaning="Spark's Java process ended during the run, or did not start.",
        causes="A signal to it, a crash of Java, an unsupported Java version.",
        remedy="The message describes the end; read the worker's log of the attempt, then run "
        "again.",
        retryable=True,
        run_code=RunErrorCode.CRASHED,
    )
    UNRESPONSIVE = Entry(
        docs_id="DR3020",
        meaning="The run's process showed no activity for 120 s and was stopped.",
        causes="A frozen machine, swapping, a defect.",
        remedy="Check the machine's load at that time, then run again.",
        retryable=True,
        run_code=RunErrorCode.CRASHED,
    )
    LEASE_EXPIRED = Entry(
        docs_id="DR3021",
        meaning="Workers stopped responding in every attempt of the run.",
        causes="Machines that failed or lost their network, or a run that ends its worker.",
        remedy="Check the workers' logs; the run's history shows each attempt.",
        retryable=True,
        run_code=RunErrorCode.CRASHED,
    )
    COMPARISON_FAILED = Entry(
        docs_id="DR3022",
        meaning="The comparison could not be executed.",
        causes="A part of the job that this engine does not support, no stage that was executed, "
        "or a cause for which there is no finer code.",
        remedy="Read the message, which names the stage or the cause; report it with the run's id "
        "if the message is not enough.",
        run_code=RunErrorCode.UNKNOWN,
    )
    TYPE_MISMATCH = Entry(
        docs_id="DR3023",
        meaning="The type of a column does not fit its type in another source, its function or "
        "its tolerance.",
        causes="A text against a number, a sum of texts, a DURATION on a number.",
        remedy="Cast the column in the job, or choose a function and tolerance of its type; the "
        "message names column and types.",
        run_code=RunErrorCode.UNKNOWN,
    )
    ZONE_REQUIRED = Entry(
        docs_id="DR3024",
        meaning="A time without a zone is compared with a time with a zone.",
        causes="The source declares no `timezone`.",
        remedy="Set `timezone` on the source whose times have no zone.",
        run_code=RunErrorCode.UNKNOWN,
    )
    OVERFLOW = Entry(
        docs_id="DR3025",
        meaning="A sum has more digits than an exact number allows.",
        causes="Very large values, or a column that is not an amount.",
        remedy="Compare the values themselves, or scale them in the source.",
        run_code=RunErrorCode.UNKNOWN,
    )
    DUPLICATE_KEYS = Entry(
        docs_id="DR3026",
        meaning="A stage that allows no duplicates found a key more than once.",
        causes="Dimensions that do not identify a row.",
        remedy="Add a dimension, or set `duplicates: multiset`.",
        run_code=RunErrorCode.UNKNOWN,
    )
    NULL_KEYS = Entry(
        docs_id="DR3027",
        meaning="A stage that allows no NULL in its dimensions found one.",
        causes="Rows without a key in a source.",
        remedy="Filter them, or set `null_keys` to group or exclude.",
        run_code=RunErrorCode.UNKNOWN,
    )
    EMPTY_SOURCE = Entry(
        docs_id="DR3028",
        meaning="A source delivered no row, and the job declares this as an error.",
        causes="A load that has not happened, a filter that is too narrow.",
        remedy="Check the source; the run's report shows what was read.",
        run_code=RunErrorCode.UNKNOWN,
    )
    CLOSURE_FAILED = Entry(
        docs_id="DR3029",
        meaning="Not every extracted row was compared, excluded by rule or out of scope.",
        causes="A defect, or a source that changed while it was read.",
        remedy="Run again; report it with the run's id if it repeats.",
        run_code=RunErrorCode.UNKNOWN,
    )
    SPILL_EXHAUSTED = Entry(
        docs_id="DR3030",
        meaning="The run needed more disk for intermediate data than is free, or than its limit.",
        causes="Very many groups, a small or full disk, or a folder for temporary files that "
        "cannot be written.",
        remedy="Free disk where the comparison runs, raise `execution.spill` (on a worker at most "
        "`DATARECS_WORKER__MAX_SPILL_MB`), or set TMPDIR to another disk.",
        run_code=RunErrorCode.UNKNOWN,
    )
    RESULT_STORE_FAILED = Entry(
        docs_id="DR3031",
        meaning="The run's differences or report could not be stored.",
        causes="The blob store is unavailable or full; the folder of `--out` cannot be written.",
        remedy="Repair the store or free disk, or name another folder with `--out`; then run "
        "again.",
        retryable=True,
        run_code=RunErrorCode.UNKNOWN,
    )
    INCONSISTENT_COUNTS = Entry(
        docs_id="DR3032",
        meaning="The counts of a stage contradict each other, so there is no verdict.",
        causes="A defect of an engine.",
        remedy="Report it with the run's id; the run's log names the broken rule.",
        run_code=RunErrorCode.UNKNOWN,
    )
    SUBMIT_REJECTED = Entry(
        docs_id="DR3033",
        meaning="The execution backend refused the run.",
        causes="A quota of the backend, or a definition that it does not accept.",
        remedy="Read the reason in `run.queue_errored`.",
        run_code=RunErrorCode.UNKNOWN,
    )
    SUBMIT_TIMEOUT = Entry(
        docs_id="DR3034",
        meaning="The execution backend did not accept the run in time.",
        causes="The backend is unavailable or returns errors.",
        remedy="Repair the backend, then run again.",
        retryable=True,
        run_code=RunErrorCode.UNKNOWN,
    )
    CANCEL_FORCED = Entry(
        docs_id="DR3035",
        meaning="A cancelled run did not stop in time and was ended by force.",
        causes="A worker that does not stop, or that cannot be reached.",
        remedy="No action; late writes of the run are refused.",
        run_code=RunErrorCode.UNKNOWN,
    )
    RESULT_MISSING = Entry(
        docs_id="DR3036",
        meaning="The execution ended well but left no result file.",
        causes="A defect, or a disk that was lost.",
        remedy="Run again; report it with the run's id if it repeats.",
        retryable=True,
        run_code=RunErrorCode.UNKNOWN,
    )
    RESULT_INVALID = Entry(
        docs_id="DR3037",
        meaning="The execution left a result file that is not valid.",
        causes="A file that is truncated, too large, or from another attempt.",
        remedy="Run again; report it with the run's id if it repeats.",
        retryable=True,
        run_code=RunErrorCode.UNKNOWN,
    )
    STOPPED = Entry(
        docs_id="DR3038",
        meaning="The execution was stopped on request, without another cause.",
        causes="A stop without a cancel request of the run.",
        remedy="Run again.",
        retryable=True,
        run_code=RunErrorCode.UNKNOWN,
    )
    STOPPED_EXTERNALLY = Entry(
        docs_id="DR3039",
        meaning="The execution was stopped or removed outside datarecs.",
        causes="A person or program stopped or deleted the execution in its backend.",
        remedy="Cancel runs through datarecs; run again.",
        retryable=True,
        run_code=RunErrorCode.UNKNOWN,
    )
    PATH_REFUSED = Entry(
        docs_id="DR3042",
        meaning="The path of a source is outside the folders that its tenant may read.",
        causes="A `..`, a drive letter, a network path or a URL in the path; a folder outside the "
        "tenant's folder below `DATARECS_FILES__ROOTS`; a link; a folder of the platform, such as "
        "`.datarecs`; an Iceberg table whose metadata names such a file.",
        remedy="Name a file or folder below the connection's root without links, or ask the "
        "operator to make it available in the tenant's folder.",
        run_code=RunErrorCode.QUERY_FAILED,
    )

    @property
    def run_code(self) -> RunErrorCode:
        """The run-level code under which this one travels."""
        return self.entry.run_code or RunErrorCode.UNKNOWN


class RunFault(ErrorCode):
    """What rules about runs refuse; never an end of a run."""

    UNKNOWN_RUN = Entry(
        docs_id="DR3101",
        meaning="An event names a run that its tenant does not have.",
        causes="The database was restored to a time before the run, or retention has deleted the"
        " run, or the record is forged.",
        remedy="After a restore trigger the runs again that `datarecs admin recover` listed, and"
        " discard the dead letters; else check who may write to the topic.",
    )
    ATTEMPT_AHEAD = Entry(
        docs_id="DR3102",
        meaning="An event belongs to an attempt that has not begun.",
        causes="The database was restored to a time before the attempt, or the record is forged.",
        remedy="After a restore do nothing: the run is executed again. Else check the dead letter"
        " and who may write to the topic.",
    )
    EVENT_NOT_ENCODABLE = Entry(
        docs_id="DR3103",
        meaning="An event does not match its schema; nothing was written.",
        causes="A defect of the service that created the event.",
        remedy="Report it with the trace id; the message names the field and the rule.",
    )
    NOT_REJUDGEABLE = Entry(
        docs_id="DR3104",
        meaning="A finished run cannot be judged with the requested changes.",
        causes="Not every difference was stored; a key has several rows; a value is masked; the "
        "changes affect a rule before judging, or the rows of a later stage.",
        remedy="Change the job and run it again; the message names the stage and the reason.",
    )
