"""The length of messages for people, in conditions and events.

Its own module, because resources and captures share it.
"""

MAX_MESSAGE = 1024
"""Bytes of a message; a longer one is cut."""
_CUT = " …"


def shortened(message: str) -> str:
    """At most `MAX_MESSAGE` bytes."""
    written = message.encode()
    if len(written) <= MAX_MESSAGE:
        return message
    cut = written[: MAX_MESSAGE - len(_CUT.encode())].decode(errors="ignore")
    return f"{cut}{_CUT}"
