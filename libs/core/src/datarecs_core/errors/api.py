"""DR4: what the REST API refuses and why. A separate module because no framework defines the codes.

The member's name is the problem's `reason`, the docs id its `code`; the HTTP status is only in
`core_api/problems.py`.
"""

from datarecs_core.errors.base import Entry, ErrorCode


class ApiCode(ErrorCode):
    """Refusals of a request as such. Faults inside a declaration are `SpecCode`."""

    MALFORMED_REQUEST = Entry(
        docs_id="DR4001",
        meaning="The request cannot be read.",
        causes="Broken JSON, bytes that are not UTF-8, a byte order mark, a repeated key, NaN, "
        "an integer of more than 19 digits, more than 64 levels of nesting.",
        remedy="Send one JSON document in UTF-8 with unique keys and plain numbers.",
    )
    UNSUPPORTED_MEDIA_TYPE = Entry(
        docs_id="DR4002",
        meaning="The route does not accept a body of this type.",
        causes="No Content-Type, text or form data, a compressed body.",
        remedy="Send `application/json`; declarations also as `application/yaml`.",
    )
    BODY_TOO_LARGE = Entry(
        docs_id="DR4003",
        meaning="The body is larger than the route allows.",
        causes="More than 1 MiB, or more than 256 KiB for a declaration.",
        remedy="Send less; split a file of many declarations.",
    )
    NOT_FOUND = Entry(
        docs_id="DR4004",
        meaning="Not found, or you have no access to it.",
        causes="A misspelt name or id, another namespace, something already deleted; of runs also "
        "by a retention policy.",
        remedy="List the existing objects, for instance with `datarecs get jobs`.",
    )
    METHOD_NOT_ALLOWED = Entry(
        docs_id="DR4005",
        meaning="The path exists but does not support this method.",
        causes="A method that the path does not have.",
        remedy="Use a method of the Allow header of the response.",
    )
    INVALID_CURSOR = Entry(
        docs_id="DR4006",
        meaning="The page cursor is not valid for this list.",
        causes="A cursor that was altered, is older than 24 hours, or belongs to another filter "
        "or tenant.",
        remedy="Request the first page again with the same filter.",
    )
    NOT_ACCEPTABLE = Entry(
        docs_id="DR4007",
        meaning="The route has no response of the requested media type.",
        causes="An Accept header without any type of the route.",
        remedy="Accept `application/json`, or a type in the documentation of the route.",
    )
    ALREADY_EXISTS = Entry(
        docs_id="DR4009",
        meaning="The name is taken.",
        causes="A request to create an object that exists.",
        remedy="Choose another name, or replace the existing one with PUT and its ETag.",
    )
    BEING_DELETED = Entry(
        docs_id="DR4010",
        meaning="The name belongs to an object that is being deleted.",
        causes="A finalizer has not ended its work yet.",
        remedy="Wait until the object is deleted, then create it again.",
        retryable=True,
    )
    WRITE_CONFLICT = Entry(
        docs_id="DR4011",
        meaning="Other requests changed the object first, several times in a row.",
        causes="Many requests that change one object at the same time.",
        remedy="Repeat the request.",
        retryable=True,
    )
    PRECONDITION_FAILED = Entry(
        docs_id="DR4012",
        meaning="The object has changed since it was read.",
        causes="An If-Match with an ETag that is no longer the current one.",
        remedy="Read the object again, apply your change to it, send it with the new ETag.",
    )
    PRECONDITION_REQUIRED = Entry(
        docs_id="DR4013",
        meaning="The request does not name the version that it changes.",
        causes="PUT, PATCH or DELETE without If-Match.",
        remedy="Send If-Match with the object's ETag; `*` overwrites any version.",
    )
    RUN_ALREADY_TERMINAL = Entry(
        docs_id="DR4014",
        meaning="The run has ended and cannot be cancelled.",
        causes="The run finished before the request arrived.",
        remedy="Read the run; its outcome does not change.",
    )
    RUN_NOT_TERMINAL = Entry(
        docs_id="DR4024",
        meaning="The run has not ended, so it cannot be retried.",
        causes="A retry of a run that waits or runs.",
        remedy="Wait for its end with `datarecs watch RUN`, or cancel it first.",
    )
    JOB_NOT_READY = Entry(
        docs_id="DR4026",
        meaning="The job cannot run as it is declared, so no run was started.",
        causes="A connection that a source names does not exist, or the stored declaration of the "
        "job cannot be read; the message says which.",
        remedy="Apply the connection, or correct and apply the job; `datarecs describe job NAME` "
        "shows its conditions.",
    )
    IDEMPOTENCY_KEY_BUSY = Entry(
        docs_id="DR4015",
        meaning="Another request with this Idempotency-Key is still in progress.",
        causes="Two requests with one key at the same time.",
        remedy="Wait a second and repeat; the response of the first request is returned.",
        retryable=True,
    )
    TOO_MANY_REQUESTS = Entry(
        docs_id="DR4016",
        meaning="A limit on requests or streams is reached.",
        causes="More requests or streams than the tenant, the principal or the address may have.",
        remedy="Wait for the seconds in Retry-After.",
        retryable=True,
    )
    ACTION_OPEN = Entry(
        docs_id="DR4018",
        meaning="The webhook endpoint has another open recover or replay.",
        causes="Two windows requested one after the other while the first was still being sent.",
        remedy="Wait until the first action is DONE, or cancel it, then repeat the request.",
        retryable=True,
    )
    TOO_MANY_SECRETS = Entry(
        docs_id="DR4019",
        meaning="The webhook endpoint already has the maximum number of signing secrets.",
        causes="Several rotations with a grace period that has not ended.",
        remedy="Wait until one expires, or rotate with a grace period of PT0S, which ends all.",
    )
    INVALID_INPUT = Entry(
        docs_id="DR4020",
        meaning="The request or command holds a value that is not allowed.",
        causes="An unknown field, parameter or filter, a wrong type or label selector, a value out "
        "of range, a finalizer added to an object that is being deleted.",
        remedy="Correct what the message names; a response of the API lists each in `errors`.",
    )
    INVALID_SPEC = Entry(
        docs_id="DR4021",
        meaning="The declaration has faults; nothing was written.",
        causes="Each entry of `errors` names its own code.",
        remedy="Correct every fault; `datarecs validate FILE` shows them without a server.",
    )
    IDEMPOTENCY_KEY_REUSED = Entry(
        docs_id="DR4022",
        meaning="This Idempotency-Key was used for another request.",
        causes="One key for two different bodies within 24 hours.",
        remedy="Use a new key for a new request.",
    )
    INVALID_IDEMPOTENCY_KEY = Entry(
        docs_id="DR4023",
        meaning="The Idempotency-Key does not have the allowed form.",
        causes="An empty key, more than 255 characters, characters that are not printable ASCII.",
        remedy="Use 1 to 255 printable ASCII characters, for instance a UUID.",
    )
    RESULT_LOST = Entry(
        docs_id="DR4025",
        meaning="The run has ended with a result, but the store of artefacts no longer has it.",
        causes="The objects of the run were deleted, or core-api uses another store than the "
        "worker that wrote them.",
        remedy="Restore the objects of the run from a backup of the store, then repeat the "
        "request; `datarecs admin recover --dry-run` lists missing results.",
    )
    PLACE_EXPIRED = Entry(
        docs_id="DR4029",
        meaning="The watch cannot continue from this place.",
        causes="A place older than seven days, of another tenant, or from before an upgrade or a "
        "restored backup of the server.",
        remedy="List the objects again, compare them with those you have, and watch from "
        "`watch_since` of that list; `datarecs get KIND -w` does so itself.",
    )
    INTERNAL_ERROR = Entry(
        docs_id="DR4090",
        meaning="The server failed unexpectedly.",
        causes="A defect; the log has an entry with the trace id of the response.",
        remedy="Repeat the request with the same Idempotency-Key; report the trace id.",
        retryable=True,
    )
    UNAVAILABLE = Entry(
        docs_id="DR4091",
        meaning="The server cannot do this now.",
        causes="The database cannot be reached, or the server is starting or stopping.",
        remedy="Wait a few seconds (a program: those in Retry-After) and repeat. If it lasts, read"
        " /readyz of the server: it names what is missing.",
        retryable=True,
    )
