"""JSON of recorded events: numbers are written digit for digit, as in their schemas.

Separate from the published models, which write decimals as text: the data of an event is unchanged.
"""

import json
from collections.abc import Mapping
from decimal import Decimal


def exact_json(value: object) -> str:
    """Compact JSON of JSON values and Decimals; members in their order."""
    match value:
        case Decimal():
            return format(value, "f")
        case Mapping():
            members = (f"{json.dumps(str(key))}:{exact_json(item)}" for key, item in value.items())
            return "{" + ",".join(members) + "}"
        case list() | tuple():
            return "[" + ",".join(exact_json(item) for item in value) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)
