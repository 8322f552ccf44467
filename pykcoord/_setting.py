"""What a setting is: the fields of `pykcoord.config.Config` are made here, and checked."""

from __future__ import annotations

import dataclasses
import re
import sys
from dataclasses import dataclass
from typing import Any

from pykcoord.errors import ConfigError

_INT = 2**31 - 1
_LONG = 2**63 - 1
_DOUBLE = sys.float_info.max
_MOST_DIGITS = 100  # Python refuses to read numbers of some thousands
_CLASS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Setting:
    """What is known about one name of Kafka's, or of pykcoord's own (`ours`).

    `type` is Kafka's (`int`, `long`, `double`, `string`, `list`, `boolean`), `unit` that of the
    value (`ms`, `bytes`, empty for none), `doc` one sentence. `default`, `minimum` and `maximum`
    are in that unit; `maximum` follows from the type where Kafka has no bound.

    Text, lists and yes-or-no settings have no bounds; `choices` of a text or of the entries of a
    list, if not empty, are all there are.
    """

    name: str
    type: str
    default: int | float | str | bool
    minimum: int | float
    maximum: int | float
    unit: str
    doc: str
    ours: bool
    """Whether the name is pykcoord's own; Kafka has the same as a constant, or not at all."""
    choices: tuple[str, ...] = ()
    or_classes: bool = False
    """Whether the entries of a list may also be `module:Class`."""


def integer(
    default: int,
    doc: str,
    *,
    unit: str,
    minimum: int | None = None,
    long: bool = False,
    ours: bool = False,
) -> Any:
    """An int, or a long; without `minimum` any."""
    limit = _LONG if long else _INT
    metadata = {
        "type": "long" if long else "int",
        "minimum": -limit - 1 if minimum is None else minimum,
        "maximum": limit,
        "unit": unit,
        "doc": doc,
        "ours": ours,
    }
    return dataclasses.field(default=default, metadata=metadata)


def text(default: str, doc: str, *, choices: tuple[str, ...] = (), ours: bool = True) -> Any:
    """A string; `choices`: all that there are."""
    return _ours(default, doc, type="string", choices=choices, ours=ours)


def listed(default: str, doc: str, *, of: tuple[str, ...], or_classes: bool = False) -> Any:
    """Words of `of`, separated by commas; with `or_classes` also `module:Class`."""
    return _ours(default, doc, type="list", choices=of, or_classes=or_classes, ours=False)


def yes_or_no(default: bool, doc: str, *, ours: bool = True) -> Any:
    """true or false."""
    return _ours(default, doc, type="boolean", ours=ours)


def double(
    default: float, doc: str, *, unit: str, minimum: float = 0.0, maximum: float = _DOUBLE
) -> Any:
    """A number."""
    metadata = {
        "type": "double",
        "minimum": minimum,
        "maximum": maximum,
        "unit": unit,
        "doc": doc,
        "ours": False,
    }
    return dataclasses.field(default=default, metadata=metadata)


def _ours(default: str | bool, doc: str, **more: Any) -> Any:
    metadata = {"minimum": 0, "maximum": 0, "unit": "", "doc": doc, "ours": True, **more}
    return dataclasses.field(default=default, metadata=metadata)


def check(known: Setting, value: object) -> None:
    """Raises ConfigError for a value that is not of the setting's type, or out of its bounds."""
    if known.type == "list":
        _check_list(known, value)
        return
    if known.type in ("string", "boolean"):
        wanted, what = (str, "a string") if known.type == "string" else (bool, "true or false")
        if not isinstance(value, wanted):
            raise ConfigError(known.name, f"{value!r} is not {what}")
        if known.choices and value not in known.choices:
            raise ConfigError(known.name, f"{value!r} is not one of {', '.join(known.choices)}")
        return
    kinds, what = (int, "an integer") if known.type != "double" else (int | float, "a number")
    if not isinstance(value, kinds) or isinstance(value, bool) or value != value:
        raise ConfigError(known.name, f"{value!r} is not {what}")
    if value < known.minimum:
        raise ConfigError(known.name, f"{value} is too small: it must be at least {known.minimum}")
    if value > known.maximum:
        raise ConfigError(known.name, f"{value} is too large: it can be at most {known.maximum}")


def _check_list(known: Setting, value: object) -> None:
    if not isinstance(value, str):
        raise ConfigError(known.name, f"{value!r} is not a string")
    words = value.split(",")
    for word in words:
        if word in known.choices or (known.or_classes and _CLASS.fullmatch(word)):
            continue
        more = ", and no module:Class" if known.or_classes else ""
        raise ConfigError(known.name, f"{word!r} is not one of {', '.join(known.choices)}{more}")
    if len(words) != len(set(words)):
        raise ConfigError(known.name, f"{value!r} names one of them twice")


def parsed(setting: Setting, value: str | int | float | bool) -> int | float | str | bool:
    """The value of a text, as Kafka's ConfigDef parses it; any other value as it is. Raises
    ConfigError for a text that is none of its type."""
    kind = setting.type
    if isinstance(value, str) and kind == "list":
        return ",".join(word.strip() for word in value.split(","))
    if not isinstance(value, str):
        return value
    if kind == "string":
        # Kafka's own choices may be written in either case.
        return value.strip().lower() if setting.choices else value.strip()
    if kind == "boolean":
        known = {"true": True, "false": False}.get(value.strip().lower())
        if known is None:
            raise ConfigError(setting.name, f"{value!r} is not true or false")
        return known
    if kind == "double":
        try:
            return float(value)
        except ValueError:
            raise ConfigError(setting.name, f"{value!r} is not a number") from None
    return _integer(setting, value)


def _integer(setting: Setting, value: str) -> int:
    number = java_integer(value)
    if number is None:
        unit = f" ({setting.unit})" if setting.unit else ""
        raise ConfigError(setting.name, f"{value!r} is not an integer{unit}")
    return number


def java_integer(text: str) -> int | None:
    """The number that a text is to Java's `Integer.parseInt`, of any size up to `_MOST_DIGITS`: no
    underscores, no blanks inside, ASCII digits. None: it is none."""
    text = text.strip()
    digits = text[1:] if text[:1] in ("+", "-") else text
    if len(digits) > _MOST_DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    return int(text)
