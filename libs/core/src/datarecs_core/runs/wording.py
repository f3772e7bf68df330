"""Free text for events and rows: bounded, and valid in every store.

Separate from the rules that write messages because one NUL in a driver's error text would otherwise
prevent the end of a run from being stored.
"""

MAX_TEXT = 2_000


def storable_text(text: str) -> str:
    """The text without NUL and halves of surrogate pairs, at most 2,000 characters."""
    letters = "".join(
        "\N{REPLACEMENT CHARACTER}" if _unstorable(letter) else letter for letter in text
    )
    return letters if len(letters) <= MAX_TEXT else f"{letters[: MAX_TEXT - 1]}…"


def storable(value: object) -> bool:
    """Whether every text in plain JSON can be stored."""
    match value:
        case str():
            return not any(_unstorable(letter) for letter in value)
        case dict():
            return all(storable(key) and storable(item) for key, item in value.items())
        case list():
            return all(storable(item) for item in value)
        case _:
            return True


def _unstorable(letter: str) -> bool:
    return letter == "\0" or "\ud800" <= letter <= "\udfff"
