"""Types of arguments that several commands take."""

from __future__ import annotations

import click

from pykcoord.catalogue import check_name, check_partitions
from pykcoord.errors import ArgumentError

__all__ = ["TopicType"]


class TopicType(click.ParamType[tuple[str, int]]):
    """NAME:PARTITIONS, as the name and the number of a topic that can be."""

    name = "NAME:PARTITIONS"

    def convert(
        self, value: object, param: click.Parameter | None, context: click.Context | None
    ) -> tuple[str, int]:
        name, _, partitions = str(value).rpartition(":")
        if not name or not partitions.isascii() or not partitions.isdigit():
            self.fail(f"{value!r} is not NAME:PARTITIONS, such as orders:12", param, context)
        try:
            check_name(name)
            check_partitions(int(partitions))
        except ArgumentError as error:
            self.fail(error.reason, param, context)
        return name, int(partitions)
