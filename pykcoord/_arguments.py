"""What the library's calls are given, checked: a wrong type is an ArgumentError like a wrong value.

Each check gives the value in the type that the rest works with, so that a NumPy integer is as good
as an int.
"""

from __future__ import annotations

import contextlib
import operator
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pykcoord.errors import ArgumentError, ConfigError

__all__ = [
    "directory",
    "integer",
    "mapping",
    "offsets",
    "partitions",
    "refusing",
    "seconds",
    "text",
    "topics",
]

MAX_STRING_BYTES = 32_767
"""Of a string in Kafka's encoding before KIP-482."""

_INT32 = range(2**31)
_INT64 = range(2**63)


def directory(argument: str, value: object) -> Path:
    """A path, where a log store may stand as well."""
    if isinstance(value, str | os.PathLike):
        with refusing(argument):
            return Path(value)
    raise ArgumentError(argument, f"a directory or a log store, not {_shown(value)}")


def text(argument: str, value: object) -> str:
    """A string that Kafka's protocol can carry."""
    if not isinstance(value, str):
        raise ArgumentError(argument, f"a string, not {_shown(value)}")
    try:
        size_bytes = len(value.encode())
    except UnicodeEncodeError as error:
        raise ArgumentError(argument, f"{_shown(value)} is not Unicode: {error.reason}") from None
    if size_bytes > MAX_STRING_BYTES:
        reason = f"{size_bytes} bytes; Kafka's strings have at most {MAX_STRING_BYTES}"
        raise ArgumentError(argument, reason)
    return value


def integer(argument: str, value: Any, allowed: range) -> int:
    """A whole number within `allowed`, as an int."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise ArgumentError(argument, f"a whole number, not {_shown(value)}")
    if number not in allowed:
        reason = f"{_shown(number)} is not between {allowed.start} and {allowed.stop - 1}"
        raise ArgumentError(argument, reason)
    return number


def seconds(argument: str, value: Any) -> float | None:
    """How long to wait, for a thread: None is for ever."""
    if value is None:
        return None
    if isinstance(value, str | bytes | bytearray):
        raise ArgumentError(argument, f"a number of seconds, not {_shown(value)}")
    with refusing(argument):
        length = float(value)
        if 0 <= length <= threading.TIMEOUT_MAX:
            return length
    reason = f"{length:g} is not between 0 and {threading.TIMEOUT_MAX:g} seconds"
    raise ArgumentError(argument, reason)


def mapping(argument: str, value: object, form: str) -> Mapping[Any, Any]:
    """Anything that maps; `form` is an example, for the error."""
    if not isinstance(value, Mapping):
        raise ArgumentError(argument, f"of the form {form}, not {_shown(value)}")
    return value


def topics(argument: str, value: object) -> dict[str, int]:
    """Names and numbers of partitions; which of them Kafka takes is the catalogue's to say."""
    given = mapping(argument, value, "{'orders': 12}")
    return {
        text(argument, name): integer(argument, count, range(-(2**31), 2**31))
        for name, count in given.items()
    }


def racks(argument: str, value: object) -> dict[str, list[list[str]]]:
    """The racks of each partition by topic; None: nothing is known of any."""
    given = {} if value is None else mapping(argument, value, "{'orders': [['a'], ['b', 'c']]}")
    return {
        text(argument, name): [
            [text(argument, rack) for rack in _listed(argument, of_partition)]
            for of_partition in _listed(argument, of_topic)
        ]
        for name, of_topic in given.items()
    }


def partitions(argument: str, value: Any, allowed: range = _INT32) -> list[tuple[str, int]]:
    """(topic, partition) pairs, with numbers within `allowed`."""
    return [_partition(argument, each, allowed) for each in _listed(argument, value)]


def offsets(argument: str, value: object) -> dict[tuple[str, int], int]:
    """Offsets by (topic, partition)."""
    given = mapping(argument, value, "{('orders', 3): 42}")
    return {
        _partition(argument, key): integer(argument, offset, _INT64)
        for key, offset in given.items()
    }


@contextlib.contextmanager
def refusing(argument: str) -> Iterator[None]:
    """What native code or the standard library says of a wrong type becomes an ArgumentError."""
    try:
        yield
    except ArgumentError:
        raise
    except ConfigError as error:
        named = error.reason if error.key == argument else str(error)
        raise ArgumentError(argument, named) from error
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise ArgumentError(argument, str(error)) from error


def _partition(argument: str, value: Any, allowed: range = _INT32) -> tuple[str, int]:
    try:
        topic, number = value
    except (TypeError, ValueError):
        reason = f"(topic, partition) pairs such as ('orders', 3), not {_shown(value)}"
        raise ArgumentError(argument, reason) from None
    return text(argument, topic), integer(argument, number, allowed)


def _listed(argument: str, value: Any) -> Iterable[Any]:
    try:
        return list(value)
    except TypeError:
        raise ArgumentError(argument, f"a list, not {_shown(value)}") from None


def _shown(value: object) -> str:
    try:
        shown = ascii(value)
    except Exception:  # a number of more digits than Python writes, or a type's own fault
        shown = object.__repr__(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
