"""The Arrow schemas of shards that work on batches: requests in, answers and records out.

The one place where they are defined; the native code is checked against them by a test. pyarrow
is asked for only when a schema is.

REQUEST   what `ArrowShard.process` takes. `seq` names the request in its answer; `ts` is the
          engine's time in ms since the epoch; `payload` Kafka's body of the request, in
          `api_version`. A heartbeat (12) with `member_id` and `generation` needs no payload.
RESPONSE  the answer: `ts` is later than the request's if it was parked; `error_code` is the first
          that the body holds; without a `payload` the request itself could not be read.
RECORD    of `__consumer_offsets`; a `value` of NULL is a tombstone.
ENVELOPE  what `ArrowShard.process` gives: rows of RESPONSE (`kind` 0, `body` is the payload) and of
          RECORD (`kind` 1, `body` is the value) in the order in which they came to be, and room
          for summaries of shards (`kind` 2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykcoord.errors import MissingExtraError

if TYPE_CHECKING:
    import pyarrow

    ENVELOPE: pyarrow.Schema
    RECORD: pyarrow.Schema
    REQUEST: pyarrow.Schema
    RESPONSE: pyarrow.Schema

__all__ = [
    "ENVELOPE",
    "KIND_RECORD",
    "KIND_RESPONSE",
    "KIND_SUMMARY",
    "RECORD",
    "REQUEST",
    "RESPONSE",
    "arrow_library",
]

KIND_RESPONSE = 0
KIND_RECORD = 1
KIND_SUMMARY = 2

# Name and type; `?` where NULL may be. A record's `cause_seq`, which is `seq` in an envelope, names
# the request in whose handling it was written; NULL: time wrote it.
_FIELDS = {
    "REQUEST": (
        "seq int64, ts int64, group_id string, member_id string?, api_key int16, api_version int16,"
        " generation int32?, client_id string?, client_host string?, payload binary?"
    ),
    "RESPONSE": (
        "shard int32, seq int64, ts int64, group_id string, member_id string?, api_key int16,"
        " error_code int16, generation int32?, payload binary?"
    ),
    "RECORD": (
        "shard int32, offset int64, epoch int32, ts int64, key binary, value binary?,"
        " cause_seq int64?"
    ),
    "ENVELOPE": (
        "kind int8, shard int32, seq int64?, offset int64?, epoch int32?, ts int64,"
        " group_id string?, member_id string?, api_key int16?, error_code int16?,"
        " generation int32?, key binary?, body binary?"
    ),
}


def arrow_library() -> Any:
    """The module pyarrow. Raises ImportError that says how to get it."""
    try:
        import pyarrow as pa
    except ImportError as error:
        reason = "Arrow tables and batches need pyarrow: pip install 'pykcoord[arrow]'"
        raise MissingExtraError(reason, name="pyarrow") from error
    return pa


def __getattr__(name: str) -> Any:
    if name not in _FIELDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    pa = arrow_library()
    fields = [each.split() for each in _FIELDS[name].split(",")]
    schema = pa.schema(
        [pa.field(field, kind.rstrip("?"), nullable=kind.endswith("?")) for field, kind in fields]
    )
    globals()[name] = schema
    return schema


def __dir__() -> list[str]:
    return sorted({*globals(), *_FIELDS})
