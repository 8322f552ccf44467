"""What requests ask for, checked: parameters of a query, and bodies of JSON."""

from __future__ import annotations

import json
from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import Request

from pykcoord.web.pages import SORTS
from pykcoord.web.reading import Place

__all__ = ["BadRequestError", "Body", "Query"]

MOST_ON_PAGE = 200
_LONGEST = 32_767  # of a group id
_LONGEST_SEARCH = 1_000
_MOST_BODY_BYTES = 1 << 20
_MOST_RESET = 10_000
_LARGEST = (1 << 63) - 1
_LARGEST_PARTITION = (1 << 31) - 1


class BadRequestError(Exception):
    """A request that is refused for what it says."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.status = status


class Query:
    """The parameters of a request. Every method raises BadRequestError."""

    def __init__(self, given: QueryParams) -> None:
        self._given = given

    @classmethod
    def of(cls, request: Request) -> Query:
        return cls(request.query_params)

    def group_id(self) -> str:
        """Also an empty one: Kafka knows it."""
        found = self.optional_group_id()
        if found is None:
            raise BadRequestError("id is missing: the group's id")
        return found

    def optional_group_id(self) -> str | None:
        """None where none is named."""
        found = self._given.get("id")
        return None if found is None else _text("id", found, _LONGEST)

    def page(self) -> dict[str, Any]:
        """The arguments of `Pages.groups`."""
        sort = self._given.get("sort", "group")
        if sort not in SORTS:
            raise BadRequestError(f"sort is one of {', '.join(SORTS)}")
        order = self._given.get("order", "asc" if sort == "group" else "desc")
        if order not in ("asc", "desc"):
            raise BadRequestError("order is asc or desc")
        after = self._given.get("after")
        return {
            "size": self._number("size", 50, 1, MOST_ON_PAGE),
            "search": _text("search", self._given.get("search", ""), _LONGEST_SEARCH),
            "state": self._given.get("state") or None,
            "kind": self._given.get("type") or None,
            "sort": sort,
            "descending": order == "desc",
            "after": None if after is None else _text("after", after, _LONGEST),
            "skip": self._number("skip", 0, 0, 1_000_000),
        }

    def _number(self, name: str, default: int, least: int, most: int) -> int:
        text = self._given.get(name, str(default))
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise BadRequestError(f"{name} is a number from {least} to {most}")
        if not least <= int(text) <= most:
            raise BadRequestError(f"{name} is a number from {least} to {most}")
        return int(text)


class Body:
    """A body of JSON. Every method raises BadRequestError."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    @classmethod
    async def of(cls, request: Request) -> Body:
        """Of a request; not more than 1 MiB."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise BadRequestError("Content-Type is application/json", 415)
        content = bytearray()
        async for part in request.stream():
            content += part
            if len(content) > _MOST_BODY_BYTES:
                raise BadRequestError(f"a body has at most {_MOST_BODY_BYTES:,} bytes", 413)
        try:
            fields = json.loads(bytes(content))
        except (ValueError, RecursionError):
            raise BadRequestError("the body is no JSON") from None
        if not isinstance(fields, dict):
            raise BadRequestError("the body is no JSON object")
        return cls(fields)

    def text(self, name: str) -> str:
        """A text that must be there."""
        found = self._fields.get(name)
        if not isinstance(found, str):
            raise BadRequestError(f"{name} is missing, or no text")
        return _text(name, found, _LONGEST)

    def reset(self) -> tuple[list[Place], str, int | None]:
        """Partitions, `to`, and the offset where `to` is "offset"."""
        to = self.text("to")
        if to not in ("earliest", "latest", "offset"):
            raise BadRequestError("to is earliest, latest or offset")
        offset = self._fields.get("offset") if to == "offset" else None
        if to == "offset" and not _is_number(offset, _LARGEST):
            raise BadRequestError("offset is a number from 0 on")
        given = self._fields.get("partitions")
        if not isinstance(given, list) or not 0 < len(given) <= _MOST_RESET:
            raise BadRequestError(f"partitions is a list of 1 to {_MOST_RESET:,}")
        places: dict[Place, None] = {}
        for one in given:
            if not isinstance(one, dict):
                raise BadRequestError("a partition is an object of topic and partition")
            topic, partition = one.get("topic"), one.get("partition")
            if (
                not isinstance(topic, str)
                or not isinstance(partition, int)
                or not _is_number(partition, _LARGEST_PARTITION)
            ):
                raise BadRequestError("a partition is an object of topic and partition")
            places[_text("topic", topic, _LONGEST), partition] = None
        return list(places), to, offset


def _is_number(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _text(name: str, text: str, longest: int) -> str:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BadRequestError(f"{name} is no text in Unicode") from None
    if size > longest:
        raise BadRequestError(f"{name} is longer than {longest:,} bytes")
    return text
