"""`datarecs up` hands each service the settings that its class reads, and no others."""

from importlib import import_module

import pytest

from datarecs_cli.stack.services import COMMON, SERVICES, Service

OF_THE_STACK = frozenset({"DATABASE", "KAFKA"})
"""Handed to every service in its own form: its login, its principal."""


@pytest.mark.parametrize("service", SERVICES, ids=lambda one: one.name)
def test_a_service_is_handed_the_sections_of_its_settings(service: Service) -> None:
    module = f"datarecs_{service.name.replace('-', '_')}.settings"
    fields = import_module(module).Settings.model_fields
    read = frozenset(name.upper() for name in fields)
    in_part = {name.removeprefix("DATARECS_").partition("__")[0] for name in service.names}
    assert service.sections | in_part == read - COMMON - OF_THE_STACK
