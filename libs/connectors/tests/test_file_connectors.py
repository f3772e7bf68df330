"""Every format of files against the conformance suite of file connectors."""

import csv
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from datarecs_application.ports.comparing import Connector
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import Connection, ConnectionType, FilesConfig
from datarecs_testing.conformance.connector import FileConnectorConformance, Rows

POLICY = Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL)
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
FILES = Connection(type=ConnectionType.FILES, config=FilesConfig(root="."))


class _OfTheRegistry(FileConnectorConformance):
    def connect(self, folder: Path, source: Source) -> Connector:
        around = Surroundings(roots=(folder,), policy=POLICY, now=lambda: NOON)
        return open_connector(source, FILES, {}, surroundings=around)


class TestCsv(_OfTheRegistry):
    kind, suffix, broken = SourceKind.CSV, "csv", b'id,word\n4,"a\n'

    def write(self, path: Path, names: Sequence[str], rows: Rows) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([names, *rows])


class TestJson(_OfTheRegistry):
    kind, suffix, broken = SourceKind.JSON, "jsonl", b'{"id": 4, "word": "a"}\n{"id": 5'

    def write(self, path: Path, names: Sequence[str], rows: Rows) -> None:
        lines = (json.dumps(dict(zip(names, row, strict=True))) for row in rows)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


class TestParquet(_OfTheRegistry):
    kind, suffix, broken = SourceKind.PARQUET, "parquet", b"PAR1 and no more"

    def write(self, path: Path, names: Sequence[str], rows: Rows) -> None:
        columns = [pa.array([row[0] for row in rows]), pa.array([row[1] for row in rows])]
        pq.write_table(pa.Table.from_arrays(columns, names=list(names)), path)
