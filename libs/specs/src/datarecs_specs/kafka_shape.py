"""The shapes of Kafka: the configuration of a connection, and the bounds of a topic.

Separate from `connection_shape` and `job_sources` because both are long, and because a login and
the two ends of a topic have rules of their own.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from datarecs_core.egress.urls import names_loopback
from datarecs_core.errors.faults import Fault, Gap, Path, Place
from datarecs_core.errors.spec import SpecCode
from datarecs_core.hashing import JsonValue
from datarecs_core.jobs.definition import TopicBound
from datarecs_core.jobs.vocabulary import TopicEdge
from datarecs_core.resources.connection import (
    KafkaConfig,
    KafkaMechanism,
    KafkaSecurity,
    RegistryConfig,
    Transport,
    split_broker,
)
from datarecs_specs.nodes import MapNode, Node
from datarecs_specs.reading import JsonSchema, Reading, Shape
from datarecs_specs.records import Field, ListOf, MapOf, Misplaced, Record
from datarecs_specs.references import BROKER, CATALOG_URL, CERTIFICATES
from datarecs_specs.shapes import IDENT, Checked, Text, Whole, Word

MAX_BROKERS = 16
MAX_LISTED_PARTITIONS = 10_000
_MAX_OFFSET = 2**63 - 1


def _check_cluster(values: Mapping[str, object], at: Path, reading: Reading) -> None:
    """A login has a user, other fields take effect, and TLS protects what leaves this machine."""
    security = values.get("security", KafkaSecurity.SASL_SSL)
    if not isinstance(security, KafkaSecurity):
        return
    if security.has_login and "user" not in values:
        reading.fault(
            Fault(
                code=SpecCode.MISSING_FIELD,
                path=(*at, "user"),
                message=f"security {security} logs in, and 'user' is missing",
                place=Place.MISSING,
            )
        )
    without_effect = [
        *(name for name in ("user", "mechanism") if not security.has_login),
        *(("ca",) if not security.is_encrypted else ()),
    ]
    for name in without_effect:
        if name in values:
            reading.fault(
                Fault(
                    code=SpecCode.WITHOUT_EFFECT,
                    path=(*at, name),
                    message=f"security {security} does not use it",
                    hint="leave it out, or write another security",
                    place=Place.KEY,
                )
            )
    _check_transport(values, security, at, reading)


def _check_transport(
    values: Mapping[str, object], security: KafkaSecurity, at: Path, reading: Reading
) -> None:
    """Of a stored spec, the dial judges."""
    if (
        security.is_encrypted
        or reading.surroundings.is_stored
        or values.get("transport") is Transport.UNENCRYPTED_ACCEPTED
        or not _leaves(values.get("brokers"))
    ):
        return
    secret = "the password and rows" if security.has_login else "rows"
    reading.fault(
        Fault(
            code=SpecCode.UNENCRYPTED_TRANSPORT,
            path=(*at, "security"),
            message=f"security {security} sends {secret} without encryption",
            hint=f"write security: {'SASL_SSL' if security.has_login else 'SSL'}, or accept it "
            "with transport: unencrypted-accepted",
            fix=f"write `security: {'SASL_SSL' if security.has_login else 'SSL'}`, with `ca` for a "
            "private authority",
        )
    )


def _leaves(brokers: object) -> bool:
    """Whether a broker is on another machine."""
    texts = brokers if isinstance(brokers, tuple) else ()
    return any(isinstance(one, str) and not names_loopback(split_broker(one)[0]) for one in texts)


_REGISTRY = Record(
    title="a schema registry",
    model=RegistryConfig,
    fields=(
        Field(name="url", shape=CATALOG_URL, doc="address of the registry"),
        Field(
            name="username", shape=IDENT, doc="of its login; the password is auth.registry_password"
        ),
    ),
)


def _config(**values: Any) -> KafkaConfig | Gap:  # noqa: ANN401  the model's fields by keyword
    """A list with a broken broker is no configuration."""
    is_broken = any(isinstance(one, Gap) for one in values["brokers"])
    return Gap(name=None) if is_broken else KafkaConfig(**values)


def kafka_config(misplaced: Mapping[str, Misplaced]) -> Record:
    """The configuration of a connection of type kafka; `misplaced` are keys of secrets."""
    return Record(
        title="config of kafka",
        model=KafkaConfig,
        build=_config,
        check=_check_cluster,
        misplaced=misplaced,
        fields=(
            Field(
                name="brokers",
                shape=ListOf(item=BROKER, least=1, most=MAX_BROKERS),
                doc="brokers to start from, each host:port",
            ),
            Field(
                name="security",
                shape=Word(words=KafkaSecurity),
                doc="SASL_ logs in with user and password, SSL encrypts",
            ),
            Field(
                name="mechanism",
                shape=Word(words=KafkaMechanism),
                doc="of the login; SCRAM does not send the password",
                has_effect=lambda config: config.security.has_login,
            ),
            Field(name="user", shape=IDENT, doc="a login that may only read its topics"),
            Field(
                name="ca",
                shape=CERTIFICATES,
                doc="authorities that may sign the brokers' certificates, PEM; default: the "
                "system's",
            ),
            Field(
                name="transport",
                shape=Word(words=Transport),
                doc="unencrypted-accepted allows a security without TLS outside the loopback",
            ),
            Field(
                name="registry",
                shape=replace(_REGISTRY, misplaced=misplaced),
                doc="registry with the schemas of records in Avro",
            ),
        ),
    )


def _partition_problem(text: str, _reading: Reading) -> str | None:
    is_number = text.isascii() and text.isdigit() and text == str(int(text))
    return None if is_number else "the number of a partition is 0 or more in plain digits"


_PARTITION = Checked(
    text=Text(most=10),
    code=SpecCode.VALUE_NOT_CONVERTIBLE,
    fault_of=_partition_problem,
    examples=("0",),
)


def _check_bound(values: Mapping[str, object], at: Path, reading: Reading) -> None:
    if len(values) != 1:
        names = list(values) or ["timestamp"]
        reading.fault(
            Fault(
                code=SpecCode.FIELD_GIVEN_TWICE if values else SpecCode.MISSING_FIELD,
                path=(*at, names[0]),
                others=tuple((*at, name) for name in names[1:]),
                message="give exactly one of timestamp and offsets",
                place=Place.KEY if values else Place.MISSING,
            )
        )


class TopicBoundShape:
    """One end of a topic: a word, or a mapping with a time or with offsets."""

    __slots__ = ("_record", "_word")

    def __init__(self, edge: TopicEdge, moment: Shape, *words: TopicEdge) -> None:
        """`edge` is the default, also of partitions without an offset; `words` are allowed too."""
        self._word = Word(words=TopicEdge, only=(edge, *words))
        self._record = Record(
            title=f"{edge} or a bound of a topic",
            model=_bound,
            check=_check_bound,
            fields=(
                Field(
                    name="timestamp",
                    shape=moment,
                    doc="first record of each partition with this time or a later one",
                    default=None,
                ),
                Field(
                    name="offsets",
                    shape=MapOf(
                        key=_PARTITION,
                        value=Whole(least=0, most=_MAX_OFFSET),
                        most=MAX_LISTED_PARTITIONS,
                    ),
                    doc=f"partition to next offset; other partitions: {edge}",
                    default=None,
                ),
            ),
        )

    def read(self, node: Node, at: Path, reading: Reading) -> object:
        if isinstance(node, MapNode):
            return self._record.read(node, at, reading)
        word = self._word.read(node, at, reading)
        return TopicBound(edge=word) if isinstance(word, TopicEdge) else word

    def write(self, value: object, *, minimal: bool) -> JsonValue:
        if not isinstance(value, TopicBound):
            raise TypeError("a bound of a topic is written from a TopicBound")
        if value.edge is not None:
            return str(value.edge)
        values: dict[str, Any] = {"timestamp": value.timestamp, "offsets": value.offsets or None}
        return self._record.write(values, minimal=minimal)

    def schema(self) -> JsonSchema:
        return {"anyOf": [self._word.schema(), self._record.schema()]}


def _bound(timestamp: str | None = None, offsets: Mapping[str, int] | None = None) -> TopicBound:
    return TopicBound(timestamp=timestamp, offsets=offsets or {})
