"""The envelope of every spec: apiVersion, kind and metadata, and the fields that the server sets.

Keys have their Kubernetes spelling here; everything inside `spec` is snake_case.
"""

from collections.abc import Mapping

from datarecs_core.errors.faults import Fault, Path
from datarecs_core.errors.spec import SpecCode
from datarecs_core.resources.annotations import KINDS, PLATFORM_PREFIX
from datarecs_core.resources.resource import API_VERSION, DEFAULT_NAMESPACE
from datarecs_specs.reading import Reading, Shape
from datarecs_specs.records import REQUIRED, Field, ListOf, MapOf, Misplaced, Record
from datarecs_specs.shapes import NAME_TEXT, Pattern, Text, Word

MAX_LABELS = 64
MAX_FINALIZERS = 16
MAX_ANNOTATION_BYTES = 256 * 1024

_PART = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_DNS = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*"
LABEL_KEY = Text(
    most=317,
    pattern=Pattern(
        regex=rf"(?=.{{1,317}}$)((?=[^/]{{1,253}}/){_DNS}/)?{_PART}",
        words="an optional DNS prefix and a slash, then at most 63 letters, digits, - _ .",
    ),
)
LABEL_VALUE = Text(
    least=0,
    most=63,
    pattern=Pattern(
        regex=rf"({_PART})?",
        words="at most 63 letters, digits, - _ . with a letter or digit at both ends",
        code=SpecCode.BAD_TEXT,
    ),
)
_QUALIFIED = Text(
    most=317,
    pattern=Pattern(
        regex=rf"(?=[^/]{{1,253}}/){_DNS}/{_PART}", words="a DNS prefix, a slash and a name"
    ),
)

_REMOVE: Misplaced = (SpecCode.UNKNOWN_FIELD, "remove it; `get -o yaml --export` prints without it")
_SERVER_FIELDS: Mapping[str, Misplaced] = dict.fromkeys(
    (
        "uid",
        "tenant_id",
        "generation",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "managedFields",
    ),
    _REMOVE,
)


def _check_metadata(values: Mapping[str, object], at: Path, reading: Reading) -> None:
    for part in ("labels", "annotations"):
        entries = values.get(part)
        for key in entries if isinstance(entries, Mapping) else ():
            if str(key).startswith(PLATFORM_PREFIX) and (part == "labels" or key not in KINDS):
                reading.fault(
                    Fault(
                        code=SpecCode.BAD_NAME,
                        path=(*at, part, str(key)),
                        message=f"{PLATFORM_PREFIX} is reserved for the platform",
                        hint=f"annotations that you may set: {', '.join(sorted(KINDS))}",
                    )
                )
    annotations = values.get("annotations")
    if isinstance(annotations, Mapping):
        size_bytes = sum(len(f"{key}{value}".encode()) for key, value in annotations.items())
        if size_bytes > MAX_ANNOTATION_BYTES:
            message = f"{size_bytes} bytes; at most 256 KiB in all"
            reading.fault(
                Fault(code=SpecCode.BAD_LENGTH, path=(*at, "annotations"), message=message)
            )


METADATA = Record(
    title="metadata",
    model=dict,
    misplaced=_SERVER_FIELDS,
    check=_check_metadata,
    fields=(
        Field(
            name="name",
            shape=NAME_TEXT,
            doc="unique per kind and namespace",
            default=REQUIRED,
            stand_in="",
        ),
        Field(
            name="namespace",
            shape=NAME_TEXT,
            doc="a project inside your tenant",
            default=DEFAULT_NAMESPACE,
        ),
        Field(
            name="labels",
            shape=MapOf(key=LABEL_KEY, value=LABEL_VALUE, most=MAX_LABELS),
            doc="short facts to select by",
        ),
        Field(
            name="annotations",
            shape=MapOf(
                key=LABEL_KEY,
                value=Text(least=0, most=MAX_ANNOTATION_BYTES, lines=True, normal=False),
                most=1_000,
            ),
            doc="notes that the platform does not use",
        ),
        Field(
            name="finalizers",
            shape=ListOf(item=_QUALIFIED, most=MAX_FINALIZERS),
            doc="names that must be removed before the object is deleted",
        ),
    ),
)


def envelope(kinds: tuple[str, ...], spec: Shape) -> Record:
    """The whole document for a kind, or for any of several while the kind is not known."""
    return Record(
        title="a declaration",
        model=dict,
        misplaced={
            **_SERVER_FIELDS,
            "status": _REMOVE,
            "result": _REMOVE,
            "cancel_requested": _REMOVE,
        },
        fields=(
            Field(
                name="apiVersion",
                shape=Word(words=(API_VERSION,), code=SpecCode.UNKNOWN_KIND),
                doc="version of the kind",
                default=REQUIRED,
                stand_in=API_VERSION,
            ),
            Field(
                name="kind",
                shape=Word(words=kinds, code=SpecCode.UNKNOWN_KIND),
                doc="what is declared",
                default=REQUIRED,
                stand_in="",
            ),
            Field(
                name="metadata",
                shape=METADATA,
                doc="name, namespace and labels",
                default=REQUIRED,
                stand_in=None,
            ),
            Field(name="spec", shape=spec, doc="the declaration", default=REQUIRED, stand_in=None),
        ),
    )
