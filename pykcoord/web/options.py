"""Where the console listens, and what it allows: checked before anything is bound."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from pykcoord.addresses import address_text
from pykcoord.errors import ConfigError

__all__ = ["WebOptions", "check_token", "is_loopback", "parse_address"]

_LEAST_TOKEN = 16
_MOST_TOKEN = 1_024
_LARGEST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class WebOptions:
    """Where the console listens, and what it allows.

    `listen`: host and port; port 0 takes a free one. `allows_changes`: offsets can be reset,
    groups deleted and members expelled. `token`: what who asks has to know; wanted where `listen`
    is beyond loopback.
    """

    listen: tuple[str, int]
    allows_changes: bool = False
    token: str | None = None

    def check(self, option: str = "--web", token_option: str = "--web-token-file") -> None:
        """Raises ConfigError where others could reach it without a token."""
        host, port = self.listen
        if self.token is not None:
            check_token(self.token, token_option)
        elif not is_loopback(host):
            raise ConfigError(
                option,
                f"{address_text(host, port)} can be reached from other machines: give a token with "
                f"{token_option}, or listen on 127.0.0.1",
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches that host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def parse_address(text: str, option: str) -> tuple[str, int]:
    """HOST:PORT, or [HOST]:PORT for IPv6. Raises ConfigError for anything else."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > _LARGEST_PORT:
        raise ConfigError(option, f"{text!r} is not HOST:PORT")
    return host, int(port)


def check_token(token: str, option: str = "token") -> None:
    """Raises ConfigError for what is no token: 16 to 1,024 printable ASCII characters without
    spaces are one."""
    if not _LEAST_TOKEN <= len(token) <= _MOST_TOKEN or not all("!" <= c <= "~" for c in token):
        raise ConfigError(
            option,
            f"a token or secret is {_LEAST_TOKEN} to {_MOST_TOKEN:,} printable ASCII characters "
            "without spaces",
        )
