"""The size of `--memory`, for the command and for calls of `datarecs.compare`."""

from datarecs_cli.invocation import UsageFault
from datarecs_core.jobs.definition import LEAST_MEMORY, MOST_MEMORY
from datarecs_core.notation import parse_size, size_text


def memory_bytes(text: str, argument: str) -> int:
    """The size in bytes.

    Args:
        text: such as `4GiB`.
        argument: the flag or argument, for the message.

    Raises:
        UsageFault: not a size, or outside the range.
    """
    size = parse_size(text)
    if size is None or not LEAST_MEMORY <= size <= MOST_MEMORY:
        allowed = f"{size_text(LEAST_MEMORY)} to {size_text(MOST_MEMORY)}"
        raise UsageFault(
            f"{argument} {text}: write a size from {allowed}, such as 4GiB; less is not enough "
            "for a comparison"
        )
    return size
