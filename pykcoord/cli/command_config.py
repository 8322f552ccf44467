"""`--command-config`: a file of Kafka's client properties, as Kafka's own tools take it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from pykcoord import properties
from pykcoord.errors import ConfigError

__all__ = ["command_config_option", "properties_of"]

_Command = TypeVar("_Command", bound=Callable[..., Any])


def properties_of(file: Path) -> dict[str, str]:
    """The properties that a file holds. Raises ConfigError for one that is none, and OSError."""
    try:
        # As Java reads it: any byte is a character.
        return {name: value for _, name, value in properties.parse(file.read_text("latin-1"))}
    except ValueError as error:
        raise ConfigError(str(file), str(error)) from None


class _PropertiesType(click.ParamType[dict[str, str]]):
    name = "FILE"

    def convert(
        self, value: object, param: click.Parameter | None, context: click.Context | None
    ) -> dict[str, str]:
        if isinstance(value, dict):
            return value
        path = Path(str(value))
        if not path.is_file():
            self.fail(f"{path}: no such file", param, context)
        return properties_of(path)


def command_config_option(command: _Command) -> _Command:
    """The option, as the argument `config`: properties by their names, none where it is not
    given."""
    option = click.option(
        "--command-config",
        "--config",
        "config",
        type=_PropertiesType(),
        default={},
        help="A file of Kafka's client properties (security.protocol, sasl.jaas.config, ...), as "
        "its own tools take.",
    )
    return option(command)
