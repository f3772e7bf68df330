"""Argo's `{{workflow.failures}}` as the exit handler receives it, to the nodes that failed.

The text is a JSON list that has passed through Go's `strconv.Quote` once or twice, or
another text. Unreadable text gives no node, because the end must be reported in any case. Separate
from the classification, which uses only nodes.
"""

import json
import re
from dataclasses import dataclass

_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|([abfnrtv\\\"']))"
)
_SHORT = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_UNWRAPPINGS = 4
_MAX_CODE_POINT = 0x10FFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedNode:
    """One failed node, parents included; absent texts are empty."""

    display_name: str
    template_name: str
    message: str
    phase: str
    pod_name: str
    finished_at: str


def read_failures(text: str) -> tuple[FailedNode, ...]:
    """The nodes of the template variable, in its order, which is random.

    `null`, an empty text, an unresolved variable and invalid text give none.
    """
    content: object = text
    for _ in range(_UNWRAPPINGS):
        if not isinstance(content, str):
            break
        content = _unwrapped(content)
    if not isinstance(content, list):
        return ()
    return tuple(_node(item) for item in content if isinstance(item, dict))


def _unwrapped(text: str) -> object:
    """One layer less: the JSON value, or the text that Go would read, or None."""
    for candidate in (text, go_unquoted(text)):
        try:
            return json.loads(candidate, strict=False)
        except (ValueError, RecursionError):
            continue
    return None


def go_unquoted(text: str) -> str:
    r"""The text of a Go string literal, with or without its quotes.

    Go escapes bytes as `\x7f` and code points as `\U0001f600`, which JSON does not have.
    """
    inner = text.strip()
    if len(inner) > 1 and inner[0] == inner[-1] == '"':
        inner = inner[1:-1]
    raw = _ESCAPE.sub(_replacement, inner)
    return raw.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _replacement(match: re.Match[str]) -> str:
    byte, short_point, long_point, octal, letter = match.groups()
    if letter is not None:
        return _SHORT.get(letter, letter)
    if byte is not None or octal is not None:
        number = int(byte, 16) if byte is not None else int(octal, 8) & 0xFF
        return bytes([number]).decode("utf-8", "surrogateescape")
    number = int(short_point or long_point, 16)
    surrogate = 0xD800 <= number <= 0xDFFF  # noqa: PLR2004 - the range of Unicode's surrogates
    return "\N{REPLACEMENT CHARACTER}" if surrogate or number > _MAX_CODE_POINT else chr(number)


def _node(item: dict[str, object]) -> FailedNode:
    def text(name: str) -> str:
        value = item.get(name)
        return value if isinstance(value, str) else ""

    return FailedNode(
        display_name=text("displayName"),
        template_name=text("templateName"),
        message=text("message"),
        phase=text("phase"),
        pod_name=text("podName"),
        finished_at=text("finishedAt"),
    )
