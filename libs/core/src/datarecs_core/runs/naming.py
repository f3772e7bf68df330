"""The name of a run's execution, the same in every backend and fixed.

Two hyphenated UUIDs would make 79 characters and Argo refuses names over 63, so both ids are
written in Crockford's base 32. A separate module because submission, stop, observation and orphan
sweep rely on computing the same name.
"""

from uuid import UUID

from datarecs_core.values import JobId, RunId

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_LETTERS = 26
_BITS = 5


def base32(value: UUID) -> str:
    """26 lower-case characters without i, l, o and u; equal order as the UUIDs."""
    number = value.int
    return "".join(
        _ALPHABET[(number >> (_BITS * place)) & 31] for place in reversed(range(_LETTERS))
    )


def execution_name(job_id: JobId, run_id: RunId) -> str:
    """`recon-<job_id>-<run_id>`, 59 characters, a valid DNS label."""
    return f"recon-{base32(job_id)}-{base32(run_id)}"
