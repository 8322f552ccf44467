"""The description of the JSON under /api/, as OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

from pykcoord.web.pages import MOST_CURVES, MOST_SORTED, SORTS

__all__ = ["description"]

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "integer"}
_MAYBE_NUMBER: Schema = {"type": ["integer", "null"]}
_KINDS = ["classic", "consumer", "simple", "share", "streams"]
_MAYBE_TEXT: Schema = {"type": ["string", "null"]}
_TRUTH: Schema = {"type": "boolean"}
_MS: Schema = {"type": "integer", "description": "ms since the epoch"}
_COUNTS: Schema = {"type": "object", "additionalProperties": _NUMBER}


def description() -> dict[str, Any]:
    """The whole document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "pykcoord console",
            "version": "1",
            "description": "Groups, members, offsets and nodes of a group coordinator. Times are "
            "ms since the epoch. null: not known, or not there.",
        },
        "paths": _paths(),
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _object(fields: Schema, required: bool = True) -> Schema:
    found: Schema = {"type": "object", "properties": fields}
    return found | ({"required": sorted(fields)} if required else {})


def _list(of: Schema) -> Schema:
    return {"type": "array", "items": of}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _answer(text: str, schema: Schema) -> Schema:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _parameter(name: str, schema: Schema, text: str, required: bool = False) -> Schema:
    return {
        "name": name,
        "in": "query",
        "required": required,
        "schema": schema,
        "description": text,
    }


def _get(summary: str, schema: Schema, *parameters: Schema) -> Schema:
    return {
        "get": {
            "summary": summary,
            "parameters": list(parameters),
            "responses": {
                "200": _answer("What was asked for.", schema),
                "400": _answer("The request is not understood.", _ref("Error")),
                "503": _answer("The coordinator does not answer.", _ref("Error")),
            },
        }
    }


def _post(summary: str, fields: Schema, answer: Schema) -> Schema:
    body = _object({"id": _TEXT, "confirm": {"type": "string", "description": "the id again"}})
    body["properties"] |= fields
    return {
        "post": {
            "summary": f"{summary} Only with --web-admin.",
            "parameters": [
                {
                    "name": "X-Pykcoord-Change",
                    "in": "header",
                    "required": True,
                    "schema": _TEXT,
                    "description": "change_token of /api/session",
                }
            ],
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": body}},
            },
            "responses": {
                "200": _answer("Done.", answer),
                "400": _answer("Not understood, or not confirmed.", _ref("Error")),
                "403": _answer("Read-only, or no page of this console asks.", _ref("Error")),
                "409": _answer("The coordinator refuses, with Kafka's error.", _ref("Error")),
            },
        }
    }


def _paths() -> Schema:
    an_id = _parameter("id", _TEXT, "the group's id", required=True)
    place = _object({"topic": _TEXT, "partition": _NUMBER})
    return {
        "/api/session": _get("What this console may do.", _ref("Session")),
        "/api/groups": _get(
            "A page of groups.",
            _ref("Groups"),
            _parameter("size", {"type": "integer", "minimum": 1, "maximum": 200}, "50 by default"),
            _parameter("search", _TEXT, "a part of the id"),
            _parameter("state", _TEXT, "Kafka's name of a state"),
            _parameter("type", _TEXT, "classic or consumer"),
            _parameter(
                "sort",
                {"type": "string", "enum": list(SORTS)},
                f"all but group: where no more than {MOST_SORTED:,} groups match",
            ),
            _parameter("order", {"type": "string", "enum": ["asc", "desc"]}, "the order"),
            _parameter("after", _TEXT, "sorted by group: the last id of the page before"),
            _parameter("skip", _NUMBER, "sorted otherwise: how many rows are before the page"),
        ),
        "/api/group": _get("One group; 404 where there is none.", _ref("Group"), an_id),
        "/api/group/lag": _get(
            f"The lag of a group over time, and of the {MOST_CURVES} partitions that are furthest "
            "behind; empty where ends are not known.",
            _ref("Lag"),
            an_id,
        ),
        "/api/cluster": _get("Nodes, shards and counts.", _ref("Cluster")),
        "/api/events": {
            "get": {
                "summary": "What changes, as server-sent events of the type tick.",
                "parameters": [_parameter("id", _TEXT, "of this group only")],
                "responses": {
                    "200": {
                        "description": "data is JSON: changed (ids of groups), all (more than "
                        "these), at_ms. At least one a second.",
                        "content": {"text/event-stream": {"schema": _TEXT}},
                    },
                    "503": _answer("Too many browsers watch.", _ref("Error")),
                },
            }
        },
        "/api/group/delete": _post(
            "Delete an empty group with its offsets.", {}, _object({"deleted": _TEXT})
        ),
        "/api/group/expel": _post(
            "Remove a member from a group.", {"member_id": _TEXT}, _object({"expelled": _TEXT})
        ),
        "/api/group/reset": _post(
            "Set offsets of an empty group.",
            {
                "partitions": _list(place),
                "to": {"type": "string", "enum": ["earliest", "latest", "offset"]},
                "offset": {"type": "integer", "description": "where to is offset"},
            },
            _object({"reset": _list({"type": "object"})}),
        ),
    }


def _schemas() -> Schema:
    row = _object(
        {
            "id": _TEXT,
            "type": {"type": "string", "enum": _KINDS},
            "state": _TEXT,
            "protocol": _TEXT,
            "members": _NUMBER,
            "lag": _MAYBE_NUMBER,
            "behind_ms": _MAYBE_NUMBER,
            "behind_is_at_least": _TRUTH,
            "committed": _MAYBE_NUMBER,
            "rebalances": _NUMBER,
        }
    )
    member = _object(
        {
            "member_id": _TEXT,
            "instance_id": _MAYBE_TEXT,
            "client_id": _TEXT,
            "client_host": _TEXT,
            "rack_id": _MAYBE_TEXT,
            "epoch": _MAYBE_NUMBER,
            "is_classic": _TRUTH,
            "topics": _list(_TEXT),
            "topic_regex": _MAYBE_TEXT,
            "partitions": _NUMBER,
            "coming": _NUMBER,
            "going": _NUMBER,
            "unreadable": _NUMBER,
        }
    )
    offset = _object(
        {
            "topic": _TEXT,
            "partition": _NUMBER,
            "offset": _MAYBE_NUMBER,
            "metadata": _TEXT,
            "end": _MAYBE_NUMBER,
            "lag": _MAYBE_NUMBER,
            "behind_ms": _MAYBE_NUMBER,
            "behind_is_at_least": _TRUTH,
            "owners": _list({"type": "integer", "description": "place in members"}),
        }
    )
    span = _object(
        {
            "what": {"type": "string", "enum": ["stable", "rebalancing", "empty"]},
            "from_ms": _MS,
            "to_ms": _MAYBE_NUMBER,
            "generation": _NUMBER,
            "cause": _MAYBE_TEXT,
            "client_id": _MAYBE_TEXT,
        }
    )
    node = _object(
        {
            "node_id": _NUMBER,
            "address": _MAYBE_TEXT,
            "answers": _TRUTH,
            "error": _MAYBE_TEXT,
            "groups": _MAYBE_NUMBER,
        }
    )
    line = _object({"at_ms": _MS, "text": _TEXT})
    samples = _list({**_list(_NUMBER), "description": "time in ms, and records"})
    pattern = _object({"text": _TEXT, "suggestion": _TEXT, "evidence": _TEXT})
    counts = _object({"states": _COUNTS, "types": _COUNTS})
    return {
        "Error": _object({"error": _TEXT}),
        "Session": _object(
            {
                "name": _TEXT,
                "is_watched": _TRUTH,
                "allows_changes": _TRUTH,
                "change_token": _MAYBE_TEXT,
                "has_token": _TRUTH,
            }
        ),
        "Groups": _object(
            {
                "groups": _list(row),
                "more": _TRUTH,
                "total": _NUMBER,
                "counts": counts,
                "listed_at_ms": _MS,
                "sorted_by": _TEXT,
                "most_sorted": _NUMBER,
                "is_whole": _TRUTH,
                "rebalances_since_ms": _MS,
                "rebalances_are_all": _TRUTH,
                "unreachable": _list(_object({"node_id": _NUMBER, "error": _TEXT})),
                "at_ms": _MS,
            }
        ),
        "Group": _object(
            {
                "id": _TEXT,
                "is_there": _TRUTH,
                "type": _TEXT,
                "state": _TEXT,
                "protocol_type": _TEXT,
                "protocol": _TEXT,
                "epoch": _MAYBE_NUMBER,
                "assignment_epoch": _MAYBE_NUMBER,
                "generation": _MAYBE_NUMBER,
                "members": _list(member),
                "members_left_out": _NUMBER,
                "offsets": _list(offset),
                "places_left_out": _NUMBER,
                "lag": _MAYBE_NUMBER,
                "behind_ms": _MAYBE_NUMBER,
                "behind_is_at_least": _TRUTH,
                "spans": _list(span),
                "why": _object(
                    {
                        "told_by": {"type": "string", "enum": ["recorder", "log"]},
                        "rebalances": _list(line),
                        "patterns": _list(pattern),
                    }
                ),
                "story": _list(_object({"at_ms": _MS, "kind": _TEXT, "text": _TEXT})),
                "shard": _NUMBER,
                "node": _MAYBE_NUMBER,
                "rebalances": _NUMBER,
                "events_since_ms": _MS,
                "events_are_all": _TRUTH,
                "at_ms": _MS,
            }
        ),
        "Lag": _object(
            {
                "lag": samples,
                "partitions": _list(
                    _object({"topic": _TEXT, "partition": _NUMBER, "lag": samples})
                ),
                "at_ms": _MS,
            }
        ),
        "Cluster": _object(
            {
                "name": _TEXT,
                "nodes": _list(node),
                "controller": _MAYBE_NUMBER,
                "shards": _list(_MAYBE_NUMBER),
                "topics": _NUMBER,
                "partitions": _NUMBER,
                "total": _NUMBER,
                "counts": counts,
                "figures": {"type": "object"},
                "at_ms": _MS,
            }
        ),
    }
