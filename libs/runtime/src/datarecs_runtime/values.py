"""The text formats of settings: durations, lists, networks, tables.

The environment has only text: `60s`, `443,8443`, `10.0.0.0/8`, a JSON object. A configuration file
may use TOML types for the same fields.
"""

import json
import re
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

_LENGTH = re.compile(r"(?P<count>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>ms|s|m|h|d)?")
_SECONDS = {"ms": 0.001, None: 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def _length(value: object) -> object:
    """Parses `60`, `60s`, `5m`, `1.5h`, `2d`; pydantic parses other text (ISO 8601)."""
    match = _LENGTH.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return value
    return timedelta(seconds=float(match["count"]) * _SECONDS[match["unit"]])


def _split(value: object) -> object:
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return json.loads(value)
    return tuple(part.strip() for part in value.split(",") if part.strip())


def _table(value: object) -> object:
    return json.loads(value) if isinstance(value, str) else value


Duration = Annotated[timedelta, BeforeValidator(_length)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_split)]
Ports = Annotated[frozenset[int], BeforeValidator(_split)]
Names = Annotated[frozenset[str], BeforeValidator(_split)]
Paths = Annotated[tuple[Path, ...], BeforeValidator(_split)]
Networks = Annotated[tuple[IPv4Network | IPv6Network, ...], BeforeValidator(_split)]
Networks6 = Annotated[tuple[IPv6Network, ...], BeforeValidator(_split)]
AsList = BeforeValidator(_split)
"""Marks a list of other values, which is `a,b` or a JSON list in the environment."""
AsTable = BeforeValidator(_table)
"""Marks a mapping that is a JSON object in the environment."""
