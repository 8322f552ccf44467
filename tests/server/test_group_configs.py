"""Settings of single consumer groups, over a socket: what Kafka 4.4.0 answered to the same, what is
kept, and what members hear."""

from __future__ import annotations

import asyncio
import datetime
import secrets
from pathlib import Path
from typing import Any

import pytest
from support.kio_client import ask

from pykcoord._native import Node
from pykcoord.catalogue import TooManyConfigsError, TopicCatalogue
from pykcoord.config import Config
from pykcoord.log.state_file import StateFile

from .conftest import Client, serving

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
INTERVAL = "consumer.assignment.interval.ms"
GROUP, BROKER, TOPIC = 32, 4, 2
SET, DELETE, APPEND, SUBTRACT = range(4)


async def alter(
    client: Client, name: str, *changes: tuple[str, int, str | None], kind: int = GROUP,
    validate_only: bool = False, version: int = 1,
) -> tuple[int, str | None]:  # fmt: skip
    configs = [
        {"name": key, "config_operation": operation, "value": value}
        for key, operation, value in changes
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    response = await ask(client, 44, version, resources=[resource], validate_only=validate_only)
    (result,) = response.responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return int(result.error_code.value), result.error_message


async def replace(client: Client, name: str, configs: dict[str, str]) -> tuple[int, str | None]:
    listed = [{"name": key, "value": value} for key, value in configs.items()]
    resource = {"resource_type": GROUP, "resource_name": name, "configs": listed}
    response = await ask(client, 33, 2, resources=[resource], validate_only=False)
    (result,) = response.responses
    return int(result.error_code.value), result.error_message


async def described(
    client: Client, name: str, keys: Any = None, *, documentation: bool = False
) -> dict[str, Any]:
    resource = {"resource_type": GROUP, "resource_name": name, "configuration_keys": keys}
    response = await ask(
        client,
        32,
        4,
        resources=[resource],
        include_synonyms=True,
        include_documentation=documentation,
    )
    (result,) = response.results
    assert result.error_code == 0
    return {config.name: config for config in result.configs}


async def own(client: Client, name: str) -> dict[str, str]:
    """What is set for the group itself."""
    configs = await described(client, name)
    return {key: of.value for key, of in configs.items() if of.config_source == 8}


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        ([(SESSION, SET, "50000")], 0, None),
        ([(SESSION, SET, "100")], 40, f"{SESSION} must be in the range 45000 to 60000 inclusive."),
        ([(HEARTBEAT, SET, "70000")], 40,
         f"{HEARTBEAT} must be in the range 5000 to 15000 inclusive."),
        ([(INTERVAL, SET, "99999999")], 40,
         f"{INTERVAL} must be in the range 0 to 15000 inclusive."),
        ([(INTERVAL, SET, "-1")], 40,
         f"Invalid value -1 for configuration {INTERVAL}: Value must be at least 0"),
        ([(SESSION, SET, "abc")], 40,
         f"Invalid value abc for configuration {SESSION}: Not a number of type INT"),
        ([(SESSION, SET, "3000000000")], 40,
         f"Invalid value 3000000000 for configuration {SESSION}: Not a number of type INT"),
        ([(SESSION, SET, "9" * 5_000)], 40,
         f"Invalid value {'9' * 5_000} for configuration {SESSION}: Not a number of type INT"),
        ([(SESSION, SET, None)], 42, f"Null value not supported for : {SESSION}"),
        ([("nope", SET, "1")], 40, "Unknown group config name: nope"),
        ([(SESSION, APPEND, "1")], 40,
         f"Can't APPEND to key {SESSION} because its type is not LIST."),
        ([(SESSION, SUBTRACT, "1")], 40,
         f"Can't SUBTRACT to key {SESSION} because its type is not LIST."),
        ([(SESSION, 7, "1")], -1, None),
        ([(SESSION, SET, "50000"), (SESSION, SET, "51000")], 42,
         "Error due to duplicate config keys"),
        ([], 0, None),
        ([(SESSION, DELETE, None)], 0, None),
    ],
)  # fmt: skip
def test_what_kafka_answers(run, changes, code, text):
    async def main():
        async with serving(Node(Config().native(), 1, secrets.token_bytes(32))) as rig:
            client = await rig.connect()
            assert await alter(client, "g", *changes) == (code, text)
            kept = {key: value for key, operation, value in changes if operation == SET}
            assert await own(client, "g") == (kept if code == 0 else {})

    run(main())


@pytest.mark.parametrize(
    ("kind", "name", "code", "text"),
    [
        (GROUP, "", 42, "Default group resources are not allowed."),
        (99, "g", 42, "Unknown resource type 99"),
        (TOPIC, "nosuch", 3, "The topic 'nosuch' does not exist."),
        (TOPIC, "orders", 42, "Configurations of topics are not altered here"),
        (BROKER, "1", 42, f"Cannot update these configs dynamically: [{SESSION}]"),
    ],
)
def test_other_resources_are_refused(run, kind, name, code, text):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            assert await alter(client, name, (SESSION, SET, "50000"), kind=kind) == (code, text)

    run(main())


def test_too_many_settings_are_refused_in_one_go(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            changes = [(f"setting-{number}", SET, "1") for number in range(101)]
            text = "At most 100 configurations of a resource are altered"
            assert await alter(client, "g", *changes) == (42, text)
            unknown = "Unknown group config name: setting-0"
            assert await alter(client, "g", *changes[:100]) == (40, unknown)

    run(main())


def test_a_resource_that_is_named_twice(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            configs = [{"name": SESSION, "config_operation": SET, "value": "50000"}]
            resource = {"resource_type": GROUP, "resource_name": "g", "configs": configs}
            other = {**resource, "resource_name": "h"}
            response = await ask(
                client, 44, 1, resources=[resource, other, resource], validate_only=False
            )
            text = "Each resource must appear at most once."
            results = [(int(of.error_code.value), of.error_message) for of in response.responses]
            assert results == [(42, text), (0, None), (42, text)]

    run(main())


def test_a_session_is_longer_than_the_heartbeat_interval(run):
    bounds = {
        "group_consumer_min_session_timeout_ms": 1_000,
        "group_consumer_min_heartbeat_interval_ms": 100,
    }
    configs = {name.replace("_", "."): str(value) for name, value in bounds.items()}

    async def main():
        async with serving(server_options={"broker_configs": configs}, **bounds) as rig:
            client = await rig.connect()
            text = f"{SESSION} must be greater than {HEARTBEAT}"
            both = (SESSION, SET, "1000"), (HEARTBEAT, SET, "1000")
            assert await alter(client, "g", *both) == (40, text)
            assert await alter(client, "g", (SESSION, SET, "1000")) == (40, text)
            assert await alter(client, "g", (SESSION, SET, "1001"), (HEARTBEAT, SET, "1000")) == (
                0, None
            )  # fmt: skip
            # What is left has to fit as well.
            assert await alter(client, "g", (HEARTBEAT, DELETE, None)) == (40, text)
            assert await own(client, "g") == {SESSION: "1001", HEARTBEAT: "1000"}

    run(main())


def test_a_heartbeat_interval_is_held_against_the_server_s_session(run):
    configs = {"group.consumer.session.timeout.ms": "6000"}

    async def main():
        async with serving(server_options={"broker_configs": configs}) as rig:
            client = await rig.connect()
            text = f"{SESSION} must be greater than {HEARTBEAT}"
            assert await alter(client, "g", (HEARTBEAT, SET, "6000")) == (40, text)
            assert await alter(client, "g", (HEARTBEAT, SET, "5999")) == (0, None)

    run(main())


def test_what_holds_for_a_group_is_described(run):
    async def main():
        options = {"broker_configs": {"group.consumer.heartbeat.interval.ms": "7000"}}
        async with serving(server_options=options) as rig:
            client = await rig.connect()
            assert await alter(client, "g", (SESSION, SET, "50000")) == (0, None)
            configs = await described(client, "g")
            assert {key: of.value for key, of in configs.items()} == {
                SESSION: "50000", HEARTBEAT: "7000", INTERVAL: "1000"
            }  # fmt: skip
            assert {of.config_type for of in configs.values()} == {3}
            assert not any(of.read_only for of in configs.values())
            assert {key: [(s.name, s.value, s.source) for s in of.synonyms]
                    for key, of in configs.items()} == {
                SESSION: [(SESSION, "50000", 8), (f"group.{SESSION}", "45000", 5)],
                HEARTBEAT: [(f"group.{HEARTBEAT}", "7000", 4)],
                INTERVAL: [(f"group.{INTERVAL}", "1000", 5)],
            }  # fmt: skip
            assert (await described(client, "never", [HEARTBEAT, "nope"])).keys() == {HEARTBEAT}
            assert {of.documentation for of in configs.values()} == {None}
            told = await described(client, "g", documentation=True)
            assert all("consumer group" in of.documentation for of in told.values()), told

    run(main())


def test_alter_configs_replaces_all(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            assert await replace(client, "g", {SESSION: "46000"}) == (0, None)
            assert await replace(client, "g", {HEARTBEAT: "7000"}) == (0, None)
            assert await own(client, "g") == {HEARTBEAT: "7000"}
            refused = f"{SESSION} must be in the range 45000 to 60000 inclusive."
            assert await replace(client, "g", {SESSION: "1"}) == (40, refused)
            assert await own(client, "g") == {HEARTBEAT: "7000"}
            assert await replace(client, "g", {}) == (0, None)
            assert await own(client, "g") == {}

    run(main())


def test_only_validated(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            changes = (INTERVAL, SET, "0"), (HEARTBEAT, SET, "6000")
            assert await alter(client, "g", *changes, validate_only=True) == (0, None)
            assert await own(client, "g") == {}

    run(main())


def test_resources_are_listed(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            await alter(client, "g", (SESSION, SET, "50000"))
            await alter(client, "gone", (SESSION, SET, "50000"))
            await alter(client, "gone", (SESSION, DELETE, None))

            async def listed(*types: int) -> list[tuple[str, int]]:
                response = await ask(client, 74, 1, resource_types=types)
                return [(of.resource_name, of.resource_type) for of in response.config_resources]

            assert await listed(GROUP) == [("g", 32)]
            assert await listed() == [("g", 32), ("1", 8), ("1", 4), ("orders", 2)]
            assert (await ask(client, 74, 1, resource_types=(99,))).error_code == 35
            assert (await ask(client, 74, 0)).config_resources == ()

    run(main())


def test_a_store_that_fails_changes_nothing(run, monkeypatch, tmp_path: Path):
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    store = StateFile(tmp_path / "catalogue.json")
    catalogue = TopicCatalogue({"orders": 1}, store)
    monkeypatch.setattr(store, "write_parts", fail)
    with pytest.raises(OSError, match="No space"):
        catalogue.set_group_configs("g", {SESSION: "50000"})
    assert catalogue.group_configs() == {}


def test_settings_survive_in_the_catalogue(tmp_path: Path):
    store = StateFile(tmp_path / "catalogue.json")
    catalogue = TopicCatalogue({"orders": 1}, store)
    catalogue.set_group_configs("g", {SESSION: "50000"})
    catalogue.set_group_configs("h", {INTERVAL: "0"})
    catalogue.set_group_configs("h", {})
    again = TopicCatalogue(None, store)
    assert again.group_configs() == {"g": {SESSION: "50000"}}
    assert again.topics() == catalogue.topics()
    assert again.cluster_id == catalogue.cluster_id


def test_what_another_process_has_set_is_read(tmp_path: Path):
    store = StateFile(tmp_path / "catalogue.json")
    here, there = TopicCatalogue({"orders": 1}, store), TopicCatalogue(None, store)
    told: list[Any] = []
    there.on_change(lambda: told.append(dict(there.group_configs())))
    here.set_group_configs("g", {SESSION: "50000"})
    there.reload()
    here.set_group_configs("g", {})
    there.reload()
    assert told == [{"g": {SESSION: "50000"}}, {}]


def test_only_so_many_groups_have_settings(monkeypatch):
    monkeypatch.setattr("pykcoord.catalogue.MAX_CONFIGURED_GROUPS", 1)
    catalogue = TopicCatalogue({"orders": 1})
    catalogue.set_group_configs("g", {SESSION: "50000"})
    with pytest.raises(TooManyConfigsError, match="at most 1 groups"):
        catalogue.set_group_configs("h", {SESSION: "50000"})
    catalogue.set_group_configs("g", {SESSION: "51000"})
    catalogue.set_group_configs("g", {})
    catalogue.set_group_configs("h", {INTERVAL: "0"})
    assert catalogue.group_configs() == {"h": {INTERVAL: "0"}}


def heartbeat(epoch: int, member_id: str = "m") -> dict[str, Any]:
    return {
        "group_id": "g",
        "member_id": member_id,
        "member_epoch": epoch,
        "rebalance_timeout": datetime.timedelta(seconds=30),
        "subscribed_topic_names": ["orders"],
        "topic_partitions": [],
    }


def test_the_next_heartbeat_hears_of_it(run):
    """Also after the node has taken the shard anew, and for one that joins later."""

    async def main():
        node = Node(Config().native(), 1, secrets.token_bytes(32))
        async with serving(node) as rig:
            client = await rig.connect()

            async def interval_ms(epoch: int) -> float:
                answer = await ask(client, 68, 1, **heartbeat(epoch))
                assert answer.error_code == 0
                return answer.heartbeat_interval / datetime.timedelta(milliseconds=1)

            assert await interval_ms(0) == 5_000
            await alter(client, "g", (HEARTBEAT, SET, "6000"), (SESSION, SET, "50000"))
            assert await interval_ms(2) == 6_000
            await alter(client, "g", (HEARTBEAT, DELETE, None))
            assert await interval_ms(2) == 5_000
            await alter(client, "other", (HEARTBEAT, SET, "9000"))
            assert await interval_ms(2) == 5_000

    run(main())


def test_the_next_target_waits_for_the_interval_of_its_group(run):
    async def main():
        node = Node(Config().native(), 1, secrets.token_bytes(32))
        async with serving(node) as rig:
            client = await rig.connect()
            await alter(client, "g", (INTERVAL, SET, "0"))
            epochs = {}
            for group_id in ("g", "other"):
                for member_id in ("a", "b"):
                    request = {**heartbeat(0, member_id), "group_id": group_id}
                    answer = await ask(client, 68, 1, **request)
                    epochs[group_id, member_id] = answer.member_epoch
            assert epochs == {("g", "a"): 2, ("g", "b"): 3, ("other", "a"): 2, ("other", "b"): 2}

    run(main())


def test_who_is_silent_for_the_session_of_its_group_is_gone(run):
    """Another group's member, as silent, stays: the server's own timeout is ten minutes."""
    bounds = {
        "group_consumer_min_session_timeout_ms": 50,
        "group_consumer_min_heartbeat_interval_ms": 10,
        "group_consumer_max_session_timeout_ms": 600_000,
        "group_consumer_session_timeout_ms": 600_000,
    }
    configs = {name.replace("_", "."): str(value) for name, value in bounds.items()}

    async def main():
        node = Node(Config(**bounds).native(), 1, secrets.token_bytes(32))
        async with serving(node, server_options={"broker_configs": configs}, **bounds) as rig:
            client = await rig.connect()
            short = (SESSION, SET, "50"), (HEARTBEAT, SET, "10")
            assert await alter(client, "g", *short) == (0, None)
            for group_id in ("g", "other"):
                request = {**heartbeat(0), "group_id": group_id}
                assert (await ask(client, 68, 1, **request)).error_code == 0

            async def members() -> list[int]:
                answer = await ask(
                    client, 69, 1, group_ids=("g", "other"), include_authorized_operations=False
                )
                return [len(group.members) for group in answer.groups]

            async with asyncio.timeout(60):
                while await members() != [0, 1]:
                    await asyncio.sleep(0)

    run(main())


def test_what_is_kept_of_a_group_is_bounded_in_size(run):
    """Ids of 32 KiB for 10,000 groups made a file of 320 MB, written anew with each change."""

    async def main():
        async with serving() as rig:
            client = await rig.connect()
            code, text = await alter(client, "g" * 2_044, (SESSION, SET, "45000"))
            assert code == 42
            assert text == "At most 2048 characters of a group's id and its settings are kept"
            assert rig.catalogue.group_configs() == {}
            assert await alter(client, "g" * 2_043, (SESSION, SET, "45000")) == (0, None)

    run(main())
