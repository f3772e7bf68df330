"""The published OpenAPI document, made without a database: `docs/openapi.json` and its check."""

from datarecs_core_api.app import routes
from datarecs_core_api.describing import Json, described


def document() -> Json:
    """The same text from every process of a release."""
    return described(routes())
