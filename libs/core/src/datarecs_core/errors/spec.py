"""DR1: every fault of a declaration. A separate module because editors, REST and CLI share it.

Numbers and meanings are those of the job file's rules; they serve every declared kind.
"""

from datarecs_core.errors.base import Entry, ErrorCode


class SpecCode(ErrorCode):
    """Faults of a declared document: 100x of writing, 101x of shape, the rest of meaning."""

    YAML_SYNTAX = Entry(
        docs_id="DR1001",
        meaning="The text is not YAML.",
        causes="A tab as indentation, a bracket, comma or quote that is expected, bytes that "
        "are not UTF-8.",
        remedy="Correct the named line; the text after it could not be read.",
    )
    DUPLICATE_KEY = Entry(
        docs_id="DR1002",
        meaning="One mapping has the same key twice.",
        causes="A copied block, or a key repeated further down.",
        remedy="Keep one of the two.",
    )
    UNSAFE_YAML = Entry(
        docs_id="DR1003",
        meaning="The document uses YAML that a declaration does not allow, or exceeds a limit.",
        causes="A tag such as `!!python/object`, more than 100 aliases or 10,000 nodes once they "
        "are expanded, an alias inside its own anchor, more than 50 levels, a file above 256 KiB, "
        "more than 100 documents.",
        remedy="Write the value out; split a large file.",
    )
    UNKNOWN_FIELD = Entry(
        docs_id="DR1004",
        meaning="The field does not exist here.",
        causes="A misspelt name, a field of another place, a field that the server sets, such as "
        "`status`.",
        remedy="Rename or remove the field; `datarecs schema KIND` lists the fields.",
    )
    FIELD_GIVEN_TWICE = Entry(
        docs_id="DR1005",
        meaning="A field and its alias are both present.",
        causes="Both spellings of one field in one mapping.",
        remedy="Keep the canonical field.",
    )
    FIELD_OF_ANOTHER_KIND = Entry(
        docs_id="DR1006",
        meaning="The field belongs to another kind of source, stage or resource.",
        causes="An option of another connector, a schedule or a notification inside a job.",
        remedy="Move it to the place in the message.",
    )
    FIELD_ALIAS = Entry(
        docs_id="DR1007",
        meaning="A field has an accepted alias instead of its canonical name; a warning.",
        causes="A spelling from another tool.",
        remedy="Write the canonical name; the alias stays valid.",
    )
    BAD_PATH = Entry(
        docs_id="DR1008",
        meaning="The path is not allowed.",
        causes="A `..`, a leading slash, a drive letter, a network path, a URL, percent-encoded "
        "dots or slashes, an invisible character.",
        remedy="Write a path below the connection's root, such as `exports/*.parquet`.",
    )
    WITHOUT_EFFECT = Entry(
        docs_id="DR1009",
        meaning="The value has no effect here.",
        causes="A field that this kind of source or type of stage does not use, or a feature that "
        "this release does not have. A value that has an effect elsewhere is a warning.",
        remedy="Leave the field out; the message describes what happens instead.",
    )
    MISSING_FIELD = Entry(
        docs_id="DR1010",
        meaning="A required field is missing.",
        causes="A mapping without it; a file that declares nothing.",
        remedy="Add the field in the message.",
    )
    WRONG_TYPE = Entry(
        docs_id="DR1011",
        meaning="The value is of another type.",
        causes="A list for a mapping, a text for a number, an empty value.",
        remedy="Write a value of the type the message names.",
    )
    NOT_IN_ENUM = Entry(
        docs_id="DR1012",
        meaning="The value is not one of the allowed values, or outside the allowed range.",
        causes="A misspelt word, such as an unknown `type` or `kind`; a number too small or too "
        "large.",
        remedy="Choose a value that the message allows.",
    )
    BAD_NAME = Entry(
        docs_id="DR1013",
        meaning="The name does not have the allowed form.",
        causes="Upper case, an underscore or a dot, more than 63 characters, an invisible "
        "character.",
        remedy="Use small letters, digits and hyphens; start and end with a letter or digit.",
    )
    BAD_LENGTH = Entry(
        docs_id="DR1014",
        meaning="A list or mapping is too short or too long.",
        causes="Fewer entries than needed, or more than allowed.",
        remedy="Use a number of entries within the limits in the message.",
    )
    BAD_TEXT = Entry(
        docs_id="DR1015",
        meaning="A text is empty, too long, or holds a character that is not allowed.",
        causes="Control characters, invisible or unassigned characters, text that is not NFC.",
        remedy="Write it in the form that the message names; shorten it, or leave out characters "
        "that are not allowed.",
    )
    UNKNOWN_KIND = Entry(
        docs_id="DR1016",
        meaning="The apiVersion or kind is not known.",
        causes="A misspelt kind, a version this release does not have.",
        remedy="Use `apiVersion: datarecs.io/v1` and a kind that `datarecs schema` lists.",
    )
    BAD_URL = Entry(
        docs_id="DR1017",
        meaning="The URL is not allowed.",
        causes="Another scheme than https, a port that is not allowed, user or password in it, an "
        "address of this host or of a private network.",
        remedy="Write a public https URL on port 443 or 8443 without credentials.",
    )
    BAD_ADDRESS = Entry(
        docs_id="DR1018",
        meaning="The mail address is not valid.",
        causes="A missing @, a line break, more than 254 characters.",
        remedy="Write one plain address, such as `finops@example.com`.",
    )
    INLINE_SECRET = Entry(
        docs_id="DR1019",
        meaning="The value is a secret; only a reference to a secret is allowed.",
        causes="A password, key or token written into the declaration.",
        remedy="Store the secret and write its reference: `env:NAME` or `file:/path`. Change the "
        "secret, since it has been in a file.",
    )
    SECRET_FOR_ANOTHER_USE = Entry(
        docs_id="DR1081",
        meaning="The operator does not allow sending this secret to this destination.",
        causes="The host was changed, the reference belongs to another system, or it is not "
        "bound to this purpose and host yet.",
        remedy="Use the reference that belongs to this host, or ask the operator to bind it: "
        "DATARECS_SECRETS__USES, or `[secrets.uses]` of datarecs.toml, which is read at the start: "
        "restart `datarecs up` after a change.",
    )
    UNENCRYPTED_TRANSPORT = Entry(
        docs_id="DR1080",
        meaning="A password and rows could travel over a network without encryption.",
        causes="`sslmode` is disable, allow or prefer, or `security` of Kafka is PLAINTEXT or "
        "SASL_PLAINTEXT, and the host is not this machine.",
        remedy="Write `sslmode: verify-full`, for Kafka `security: SASL_SSL`, with `ca` for a "
        "private authority. Where the network is trusted, write `transport: unencrypted-accepted`.",
    )
    DUPLICATE_NAME = Entry(
        docs_id="DR1020",
        meaning="Two sources, stages, measures or dimensions of a job have the same name, or two "
        "objects of one kind and namespace in the files of one command.",
        causes="A copied entry or file.",
        remedy="Give each a different name.",
    )
    UNKNOWN_SOURCE = Entry(
        docs_id="DR1021",
        meaning="No source of the job has this name.",
        causes="A misspelt or removed source.",
        remedy="Use a name from `sources`.",
    )
    UNKNOWN_STAGE = Entry(
        docs_id="DR1022",
        meaning="No earlier stage has this name.",
        causes="A misspelt stage, or a later one.",
        remedy="Use the name of an earlier stage.",
    )
    UNKNOWN_CONNECTION = Entry(
        docs_id="DR1023",
        meaning="No connection has this name.",
        causes="A misspelt name, another namespace, a connection not applied yet.",
        remedy="Apply the connection first, or correct the name.",
    )
    CONNECTION_MISMATCH = Entry(
        docs_id="DR1024",
        meaning="This source cannot use a connection of this type.",
        causes="A database source with a file connection, or the other way round.",
        remedy="Use a connection of the type in the message.",
    )
    NOT_ONE_ORIGIN = Entry(
        docs_id="DR1030",
        meaning="A source has none, or more than one, of the fields for what it reads.",
        causes="None, or more than one, of relation, query and path.",
        remedy="Set exactly one of them.",
    )
    NOT_ONE_EXPRESSION = Entry(
        docs_id="DR1031",
        meaning="The SQL is not one SELECT, or not one expression.",
        causes="A second statement, a syntax error, a query where an expression belongs.",
        remedy="Write exactly one; a filter is the condition after WHERE.",
    )
    FORBIDDEN_SQL = Entry(
        docs_id="DR1032",
        meaning="The SQL contains something that a job may not use.",
        causes="Writing, locking, DDL; in a filter, column or condition a function or operator "
        "that is not on the list, a subquery, a comment.",
        remedy="Use in expressions only what docs/expressions.md lists, and put a subquery into "
        "`query`, which may only read.",
    )
    UNDECLARED_PARAMETER = Entry(
        docs_id="DR1033",
        meaning="A parameter is used or passed that the job does not declare.",
        causes="A misspelt `:name`, or a value for a name without an entry in `parameters`.",
        remedy="Declare it under `parameters`.",
    )
    VALUE_NOT_CONVERTIBLE = Entry(
        docs_id="DR1034",
        meaning="A value does not have the type of its parameter.",
        causes="A date that does not exist, a number with a comma, a value outside `allowed`.",
        remedy="Write the value in the form the message names.",
    )
    BAD_DATE_EXPRESSION = Entry(
        docs_id="DR1035",
        meaning="The `{{ }}` expression cannot be evaluated.",
        causes="Something other than run.date, run.timestamp, run.scheduled_at with offsets.",
        remedy="Write for instance `{{ run.date - 1d }}` or `{{ run.date month_start }}`.",
    )
    BAD_TOLERANCE_VALUE = Entry(
        docs_id="DR1040",
        meaning="The tolerance is not an exact decimal of zero or more.",
        causes="A sign, an exponent, a comma, more than 38 digits, more than 18 after the point.",
        remedy="Write zero or more as digits with a point and without a sign, such as `0.01`.",
    )
    PERCENTAGE_ABOVE_100 = Entry(
        docs_id="DR1041",
        meaning="A percentage is above 100.",
        causes="A ratio in place of a percentage, or a typing error.",
        remedy="Write 0 to 100; `0.1` is a tenth of a percent.",
    )
    TOLERANCE_KIND_MISMATCH = Entry(
        docs_id="DR1042",
        meaning="The kind of tolerance does not fit the type of the measure.",
        causes="A DURATION on a number, a PERCENTAGE on a time or text.",
        remedy="Use ABSOLUTE or PERCENTAGE for numbers, DURATION for times, EXACT for the rest.",
    )
    BASE_NOT_ALLOWED = Entry(
        docs_id="DR1043",
        meaning="`base` is set on a tolerance that has no base.",
        causes="`base` with another kind than PERCENTAGE.",
        remedy="Remove `base`.",
    )
    VALUE_ON_EXACT = Entry(
        docs_id="DR1044",
        meaning="EXACT takes no value.",
        causes="A value with EXACT.",
        remedy="Remove the value, or use ABSOLUTE.",
    )
    EXACT_WITH_OTHERS = Entry(
        docs_id="DR1045",
        meaning="EXACT is combined with another tolerance.",
        causes="A list with EXACT and another tolerance.",
        remedy="Keep only EXACT, or only the others.",
    )
    BAD_DURATION = Entry(
        docs_id="DR1046",
        meaning="The duration is not ISO 8601, or outside its range.",
        causes="`5m` for PT5M, a sign, months or years, a value too short or too long.",
        remedy="Write for instance PT30S, PT15M, PT1H, P1D.",
    )
    FUNCTION_NOT_ALLOWED = Entry(
        docs_id="DR1050",
        meaning="The function cannot be used in a stage of this type.",
        causes="An aggregate in a row stage, `value` in an aggregate stage.",
        remedy="Use one of the functions the message lists.",
    )
    MEASURE_IS_DIMENSION = Entry(
        docs_id="DR1051",
        meaning="A measure has the name or column of a dimension.",
        causes="A key column compared with itself.",
        remedy="Remove the measure; equal keys are equal by definition.",
    )
    TOLERANCE_IN_DIGEST = Entry(
        docs_id="DR1052",
        meaning="A digest stage compares exactly and takes no tolerance.",
        causes="Tolerances on a measure of a digest stage.",
        remedy="Remove them, or use a row stage.",
    )
    STAR_NOT_ALLOWED = Entry(
        docs_id="DR1053",
        meaning='`measures: "*"` cannot be used in a stage of this type.',
        causes="An aggregate or custom_sql stage without named measures.",
        remedy="Name the measures.",
    )
    QUERY_MISSING = Entry(
        docs_id="DR1054",
        meaning="A custom_sql stage has no query for a source.",
        causes="Fewer queries than sources.",
        remedy="Write one query per source.",
    )
    FUNCTION_REQUIRED = Entry(
        docs_id="DR1055",
        meaning="`duplicates: aggregate` needs a function on every measure.",
        causes="A measure without `function`.",
        remedy="Set a function that combines the copies for each measure, such as sum or max.",
    )
    SCOPE_DIMENSION_UNAVAILABLE = Entry(
        docs_id="DR1056",
        meaning="The stage of the scope groups by columns that this stage does not have.",
        causes="A scope from a counts, schema or custom_sql stage.",
        remedy="Take the scope from an aggregate, row or digest stage.",
    )
    CONFIRM_NOT_READABLE = Entry(
        docs_id="DR1057",
        meaning="`confirm` needs a source that can be read a second time at a newer pin.",
        causes="Every source is an extract of an earlier run, or fixed to one snapshot.",
        remedy="Remove `confirm`, or let a source use its newest snapshot.",
    )
    UNKNOWN_COLUMN = Entry(
        docs_id="DR1060",
        meaning="The source has no such column.",
        causes="A misspelt column, a renamed one, another case.",
        remedy="Use a column the message lists, or map it under `columns`.",
    )
    AMBIGUOUS_COLUMN = Entry(
        docs_id="DR1061",
        meaning="The source has this column more than once.",
        causes="The same header twice in a file, the same name twice in a query.",
        remedy="Give the columns different names in the query or file.",
    )
    INCOMPATIBLE_TYPES = Entry(
        docs_id="DR1062",
        meaning="The type of a column does not fit its type in another source, a cast or the "
        "function over it.",
        causes="A number here and a text there, a cast that does not exist, a sum of texts.",
        remedy="Declare a `cast` or a `map` in the job that gives the type in the message, or "
        "choose another function; `datarecs init` writes a job for two files.",
    )
    ZONE_REQUIRED = Entry(
        docs_id="DR1063",
        meaning="A time without a zone is compared with a time with a zone.",
        causes="A naive timestamp column in one source.",
        remedy="Declare the source's `timezone`.",
    )
    FEATURE_NOT_INSTALLED = Entry(
        docs_id="DR1065",
        meaning="The connector of this release does not support something that the job uses.",
        causes="A filter, a query, an option or a kind of source that this release cannot read.",
        remedy="Use what the message suggests; `datarecs schema ReconciliationJob` lists the "
        "kinds of sources and their options.",
    )
    TYPE_NOT_SUPPORTED = Entry(
        docs_id="DR1066",
        meaning="The type of a column cannot be compared in this release, in any source.",
        causes="An array or composite of a database, a nested column of a lake table, INT96 of "
        "Parquet without a declared precision, or a type without a canonical type.",
        remedy="Leave the column out (`except`, `schema.ignore`), make it a plain column in the "
        "source, or declare `normalize.columns.<column>.precision` for INT96; the message names "
        "the column, the source and the type.",
    )
    UNKNOWN_ZONE = Entry(
        docs_id="DR1071",
        meaning="The time zone does not exist.",
        causes="An abbreviation such as CET in place of a city, a typing error.",
        remedy="Use a name of the IANA list, such as Europe/Paris.",
    )
    BAD_CRON = Entry(
        docs_id="DR1073",
        meaning="The cron expression is not valid, or it never fires.",
        causes="A field for seconds or years, a `?`, a value outside its range, a date that does "
        "not exist, such as 30 February.",
        remedy="Write minute, hour, day of month, month and day of week, such as `30 2 * * *`, or "
        "`@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.",
    )
    UNKNOWN_MASK_COLUMN = Entry(
        docs_id="DR1072",
        meaning="A masked column occurs in no stage.",
        causes="A misspelt column; its values would not be masked.",
        remedy="Name a dimension, measure or column of the job.",
    )
