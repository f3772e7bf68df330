"""How the values of a sink's records become fields, as the sink declares it."""

from collections.abc import Mapping
from dataclasses import dataclass

from datarecs_application.ports.sinking import DecodedValue, ValueDecoder
from datarecs_application.sinking.decoding import (
    check_size,
    decode_bytes,
    decode_object,
    decode_text,
)
from datarecs_connectors.avro.decoding import AvroValueError
from datarecs_connectors.avro.registries import SchemaRegistry
from datarecs_connectors.errors import ConnectionFailedError
from datarecs_core.errors.sink import BadRecordError
from datarecs_core.sink.definition import SinkTable, ValueFormat

_WITHOUT_REGISTRY: Mapping[ValueFormat, ValueDecoder] = {
    ValueFormat.JSON: decode_object,
    ValueFormat.TEXT: decode_text,
    ValueFormat.BYTES: decode_bytes,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroDecoder:
    """Port ValueDecoder over records in Avro."""

    registry: SchemaRegistry

    def __call__(self, value: bytes) -> DecodedValue:
        check_size(value)
        try:
            return DecodedValue(*self.registry.decoded(value))
        except AvroValueError as cause:
            raise BadRecordError(path="", reason=str(cause)) from None


def value_decoder(sink: SinkTable, registry: SchemaRegistry | None) -> ValueDecoder:
    """Raises ConnectionFailedError if the connection has no registry and the sink needs one."""
    if sink.value is not ValueFormat.AVRO:
        return _WITHOUT_REGISTRY[sink.value]
    if registry is None:
        raise ConnectionFailedError(
            sink.connection,
            "records in Avro need a schema registry; write config.registry: {url: URL}",
        )
    return AvroDecoder(registry=registry)
