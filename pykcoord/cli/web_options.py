"""The options of a console: `--web`, `--web-admin`, `--web-token-file`."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import click

from pykcoord.errors import ConfigError
from pykcoord.web import WebOptions

__all__ = ["read_token", "web_options"]

_MOST_TOKEN_BYTES = 4_096


def read_token(path: Path, option: str = "--web-token-file") -> str:
    """The token in a file: its first line. Raises ConfigError where it cannot be read, or other
    users of this machine can read it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            mode = os.fstat(descriptor).st_mode
            content = os.read(descriptor, _MOST_TOKEN_BYTES)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ConfigError(option, f"{path}: {error.strerror}") from None
    if stat.S_ISREG(mode) and mode & (stat.S_IROTH | stat.S_IWOTH):
        raise ConfigError(option, f"{path}: other users can read or write it; chmod 600 {path}")
    return content.decode("latin-1").split("\n", 1)[0].strip()


def web_options(
    listen: tuple[str, int] | None, allows_changes: bool, token_file: Path | None
) -> WebOptions | None:
    """Raises UsageError for options of a console that there is not, and ConfigError for one that
    others could reach."""
    if listen is None:
        if allows_changes or token_file is not None:
            raise click.UsageError("--web-admin and --web-token-file are options of --web")
        return None
    token = read_token(token_file) if token_file is not None else None
    options = WebOptions(listen, allows_changes, token)
    options.check()
    return options
