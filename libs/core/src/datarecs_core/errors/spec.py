"""DR1: every fault a declaration can have. Its own module because editors, REST and CLI share it.

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
        remedy="Correct the line named; what follows it could not be read.",
    )
    DUPLICATE_KEY = Entry(
        docs_id="DR1002",
        meaning="One mapping has the same key twice.",
        causes="A copied block, or a key repeated further down.",
        remedy="Keep one of the two.",
    )
    UNSAFE_YAML = Entry(
        docs_id="DR1003",
        meaning="The document uses more of YAML than a declaration may.",
        causes="A tag such as `!!python/object`, more than 100 aliases or 10,000 nodes once they "
        "are expanded, an alias inside its own anchor, more than 50 levels, a file above 256 KiB, "
        "more than 100 documents.",
        remedy="Write the value out; split a large file.",
    )
    UNKNOWN_FIELD = Entry(
        docs_id="DR1004",
        meaning="There is no such field here.",
        causes="A misspelt name, a field of another place, a field the server owns, such as "
        "`status`.",
        remedy="Rename or remove the field; `datarecs schema KIND` lists what there is.",
    )
    FIELD_GIVEN_TWICE = Entry(
        docs_id="DR1005",
        meaning="A field and its alias stand side by side.",
        causes="Both spellings of one field in one mapping.",
        remedy="Keep the canonical field.",
    )
    FIELD_OF_ANOTHER_KIND = Entry(
        docs_id="DR1006",
        meaning="The field belongs to another kind of source, stage or resource.",
        causes="An option of another connector, a schedule or a notification inside a job.",
        remedy="Move it where the message says.",
    )
    FIELD_ALIAS = Entry(
        docs_id="DR1007",
        meaning="A field stands under another name than its own; a warning.",
        causes="A spelling taken over from another tool.",
        remedy="Write the canonical name; the other one keeps working.",
    )
    BAD_PATH = Entry(
        docs_id="DR1008",
        meaning="The path is not one that may be read.",
        causes="A `..`, a leading slash, a drive letter, a network path, a URL, percent-encoded "
        "dots or slashes, an invisible character.",
        remedy="Write a path below the connection's root, such as `exports/*.parquet`.",
    )
    WITHOUT_EFFECT = Entry(
        docs_id="DR1009",
        meaning="The value would change nothing here.",
        causes="A field that this kind of source or type of stage does not use, or a promise that "
        "this release does not keep. A value that another place obeys is a warning.",
        remedy="Leave the field out; the message says what happens instead.",
    )
    MISSING_FIELD = Entry(
        docs_id="DR1010",
        meaning="A field that must be given is missing.",
        causes="A mapping without it; a file that declares nothing.",
        remedy="Add what the message names.",
    )
    WRONG_TYPE = Entry(
        docs_id="DR1011",
        meaning="The value is of another type.",
        causes="A list for a mapping, a text for a number, an empty value.",
        remedy="Write a value of the type the message names.",
    )
    NOT_IN_ENUM = Entry(
        docs_id="DR1012",
        meaning="The value is none of the allowed ones, or outside the allowed range.",
        causes="A misspelt word, such as a `type` or `kind` that there is not; a number too small "
        "or too large.",
        remedy="Choose one of the values the message lists.",
    )
    BAD_NAME = Entry(
        docs_id="DR1013",
        meaning="The name is not of the allowed form.",
        causes="Upper case, an underscore or a dot, more than 63 characters, an invisible "
        "character.",
        remedy="Use small letters, digits and hyphens; start and end with a letter or digit.",
    )
    BAD_LENGTH = Entry(
        docs_id="DR1014",
        meaning="A list or mapping is too short or too long.",
        causes="Fewer entries than needed, or more than allowed.",
        remedy="Keep within the number the message names.",
    )
    BAD_TEXT = Entry(
        docs_id="DR1015",
        meaning="A text is empty, too long, or holds a character that is not allowed.",
        causes="Control characters, invisible or unassigned characters, text that is not NFC.",
        remedy="Shorten it, or write it with visible characters alone.",
    )
    UNKNOWN_KIND = Entry(
        docs_id="DR1016",
        meaning="The apiVersion or kind is not known.",
        causes="A misspelt kind, a version this release does not have.",
        remedy="Use `apiVersion: datarecs.io/v1` and a kind that `datarecs schema` lists.",
    )
    BAD_URL = Entry(
        docs_id="DR1017",
        meaning="The URL is not one that may be called.",
        causes="Another scheme than https, a port that is not allowed, user or password in it, an "
        "address of this host or of a private network.",
        remedy="Write a public https URL on port 443 or 8443 without credentials.",
    )
    BAD_ADDRESS = Entry(
        docs_id="DR1018",
        meaning="The mail address is not one.",
        causes="A missing @, a line break, more than 254 characters.",
        remedy="Write one plain address, such as `finops@example.com`.",
    )
    INLINE_SECRET = Entry(
        docs_id="DR1019",
        meaning="A secret stands where only a reference to one may stand.",
        causes="A password, key or token written into the declaration.",
        remedy="Store the secret and write its reference: `env:NAME` or `file:/path`. Change the "
        "secret, since it has been in a file.",
    )
    SECRET_FOR_ANOTHER_USE = Entry(
        docs_id="DR1081",
        meaning="A secret reference stands where the operator does not allow it to be sent.",
        causes="The host was changed, the reference belongs to another system, or nobody bound it "
        "to this purpose and host yet.",
        remedy="Use the reference that belongs to this host. Else let the operator bind it: "
        "DATARECS_SECRETS__USES, or `[secrets.uses]` of datarecs.toml.",
    )
    UNENCRYPTED_TRANSPORT = Entry(
        docs_id="DR1080",
        meaning="A password and rows could travel over a network without encryption.",
        causes="`sslmode` is disable, allow or prefer, and the host is not this machine.",
        remedy="Write `sslmode: verify-full`, with `ca` for an authority of your own. Where the "
        "network is trusted, write `transport: unencrypted-accepted`.",
    )
    DUPLICATE_NAME = Entry(
        docs_id="DR1020",
        meaning="Two sources, stages, measures or dimensions have one name.",
        causes="A copied entry.",
        remedy="Give each its own name.",
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
        causes="A misspelt stage, or one that comes later.",
        remedy="Name a stage that stands above this one.",
    )
    UNKNOWN_CONNECTION = Entry(
        docs_id="DR1023",
        meaning="No connection has this name.",
        causes="A misspelt name, another namespace, a connection not applied yet.",
        remedy="Apply the connection first, or correct the name.",
    )
    CONNECTION_MISMATCH = Entry(
        docs_id="DR1024",
        meaning="The connection is of a kind that cannot serve this source.",
        causes="A database source with a file connection, or the other way round.",
        remedy="Name a connection of the type the message asks for.",
    )
    NOT_ONE_ORIGIN = Entry(
        docs_id="DR1030",
        meaning="A source says in no way, or in two ways, what it reads.",
        causes="None or several of relation, query, path, topic, extract.",
        remedy="Give exactly one of them.",
    )
    NOT_ONE_EXPRESSION = Entry(
        docs_id="DR1031",
        meaning="The SQL is not one SELECT, or not one expression.",
        causes="A second statement, a syntax error, a query where an expression belongs.",
        remedy="Write exactly one; a filter is what stands behind WHERE.",
    )
    FORBIDDEN_SQL = Entry(
        docs_id="DR1032",
        meaning="The SQL does something a job may not do.",
        causes="Writing, locking, DDL; in a filter, column or condition a function or operator "
        "that is not on the list, a subquery, a comment.",
        remedy="Write expressions with what docs/expressions.md lists and put a subquery into "
        "`query`, which may only read.",
    )
    UNDECLARED_PARAMETER = Entry(
        docs_id="DR1033",
        meaning="A parameter is used or given that the job does not declare.",
        causes="A misspelt `:name`, or a value for a name without an entry in `parameters`.",
        remedy="Declare it under `parameters`.",
    )
    VALUE_NOT_CONVERTIBLE = Entry(
        docs_id="DR1034",
        meaning="A value is not of its parameter's type.",
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
        meaning="The tolerance is not a decimal of zero or more that is held exactly.",
        causes="A sign, an exponent, a comma, more than 38 digits, more than 18 after the point.",
        remedy="Write zero or more as digits with a point and without a sign, such as `0.01`.",
    )
    PERCENTAGE_ABOVE_100 = Entry(
        docs_id="DR1041",
        meaning="A percentage is above 100.",
        causes="A ratio taken for a percentage, or a slip.",
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
        meaning="`base` stands on a tolerance that has none.",
        causes="`base` beside another kind than PERCENTAGE.",
        remedy="Remove `base`.",
    )
    VALUE_ON_EXACT = Entry(
        docs_id="DR1044",
        meaning="EXACT takes no value.",
        causes="A value beside EXACT.",
        remedy="Remove the value, or use ABSOLUTE.",
    )
    EXACT_WITH_OTHERS = Entry(
        docs_id="DR1045",
        meaning="EXACT stands beside another tolerance.",
        causes="A list that holds EXACT and more.",
        remedy="Keep EXACT alone, or the others.",
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
        meaning="A custom_sql stage lacks the query of a source.",
        causes="Fewer queries than sources.",
        remedy="Write one query per source.",
    )
    FUNCTION_REQUIRED = Entry(
        docs_id="DR1055",
        meaning="`duplicates: aggregate` needs a function on every measure.",
        causes="A measure without `function`.",
        remedy="Say for each measure how its copies are joined, such as sum or max.",
    )
    SCOPE_DIMENSION_UNAVAILABLE = Entry(
        docs_id="DR1056",
        meaning="The scope's stage groups by something this stage cannot see.",
        causes="A scope from a counts or schema stage, or over queries of their own.",
        remedy="Take the scope from an aggregate, row or digest stage.",
    )
    CONFIRM_NOT_READABLE = Entry(
        docs_id="DR1057",
        meaning="`confirm` needs a source that can be read a second time at a newer pin.",
        causes="Every source is an extract of an earlier run, or fixed to one snapshot.",
        remedy="Remove `confirm`, or let a source follow its newest snapshot.",
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
        meaning="The type of a column does not fit: to that of another source, to a cast or to the "
        "function over it.",
        causes="A number here and a text there, a cast that does not exist, a sum of texts.",
        remedy="Declare a `cast` or a `map` that gives the type the message asks for, or choose "
        "another function.",
    )
    ZONE_REQUIRED = Entry(
        docs_id="DR1063",
        meaning="A time without a zone meets a time with one.",
        causes="A naive timestamp column in one source.",
        remedy="Declare the source's `timezone`.",
    )
    FEATURE_NOT_INSTALLED = Entry(
        docs_id="DR1065",
        meaning="The connector of this release does not have what the job asks of it.",
        causes="A filter, a query, an option or a kind of source that this release cannot read.",
        remedy="Do what the message names instead; `datarecs schema ReconciliationJob` lists the "
        "kinds of sources and their options.",
    )
    TYPE_NOT_SUPPORTED = Entry(
        docs_id="DR1066",
        meaning="The type of a column cannot be compared in this release, in whatever sources.",
        causes="An array or composite of a database, a nested column of a lake table, INT96 of "
        "Parquet without a declared precision, or a type without a canonical type.",
        remedy="Leave the column out (`except`, `schema.ignore`), make it a plain column in the "
        "source, or declare `normalize.columns.<column>.precision` for INT96; the message names "
        "the column, the source and the type.",
    )
    UNKNOWN_ZONE = Entry(
        docs_id="DR1071",
        meaning="There is no such time zone.",
        causes="An abbreviation such as CET in place of a place, a slip.",
        remedy="Use a name of the IANA list, such as Europe/Paris.",
    )
    UNKNOWN_MASK_COLUMN = Entry(
        docs_id="DR1072",
        meaning="A masked column occurs in no stage.",
        causes="A misspelt column; its values would be shown in clear.",
        remedy="Name a dimension, measure or column of the job.",
    )
