"""The output of `--help`: for each command an example to paste, and no text cut off."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click
import pytest

from pykcoord.cli import commands

from .conftest import Result


def _walk(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _walk(below, *path, name)


COMMANDS = dict(_walk(commands))


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: " ".join(path) or "pykcoord")
def test_help_has_an_example_and_says_all_of_it(
    path: tuple[str, ...], pykcoord: Callable[..., Result]
) -> None:
    result = pykcoord(*path, "--help")
    assert (result.code, result.err) == (0, "")
    _, example, text = result.out.partition("Example:" if path else "Start with")
    assert example
    assert " ".join(("pykcoord", *path)) in text
    listed = result.out.partition("Commands:")[2]
    assert "..." not in listed


def test_every_command_is_found() -> None:
    assert {("serve",), ("demo",), ("assign",), ("log", "dump")} <= COMMANDS.keys()


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: " ".join(path) or "pykcoord")
def test_options_that_kafka_s_tools_have_are_taken_under_each_of_their_names(
    path: tuple[str, ...],
) -> None:
    """Kafka's tools take --bootstrap-server and --command-config, its clients bootstrap.servers."""
    options = [{*one.opts} for one in COMMANDS[path].params if isinstance(one, click.Option)]
    for names in ({"--bootstrap-servers", "--bootstrap-server"}, {"--command-config", "--config"}):
        for one in options:
            if path != ("serve",) and names & one:
                assert names <= one
