"""JSON of recorded events: numbers go out digit for digit, as their schemas promise.

Apart from the published models, which write decimals as text: an event's data is the event's own.
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
