"""ApiVersions: the features that clients look at, and version 5 (KIP-1242)."""

from __future__ import annotations

import struct

import pytest
from support.kio_client import ask

from .conftest import frame, serving

SOFTWARE = {"client_software_name": "test", "client_software_version": "1"}
GROUP_KEYS = {68, 69}


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(("protocols", "level"), [("classic,consumer", 1), ("classic", 0)])
def test_group_version(run, version, protocols, level):
    """Where consumer groups are off, their APIs are not listed: franz-go uses what is listed."""

    async def main():
        async with serving(group_coordinator_rebalance_protocols=protocols) as rig:
            client = await rig.connect()
            response = await ask(client, 18, version, **SOFTWARE)
            supported = [
                (f.name, f.min_version, f.max_version) for f in response.supported_features
            ]
            # KAFKA-17011: version 3 knows no lowest version of 0.
            assert supported == ([("group.version", 0, 1)] if version >= 4 else [])
            finalized = [
                (f.name, f.min_version_level, f.max_version_level)
                for f in response.finalized_features
            ]
            assert finalized == ([("group.version", 1, 1)] if level else [])
            assert response.finalized_features_epoch >= 0
            listed = {of.api_key for of in response.api_keys}
            assert listed & GROUP_KEYS == (GROUP_KEYS if level else set())

    run(main())


def test_an_error_has_no_features(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            response = await ask(
                client, 18, 4, client_software_name="-", client_software_version=""
            )
            assert (response.error_code, response.api_keys) == (42, ())
            assert response.supported_features == ()

    run(main())


def compact(text: str | None) -> bytes:
    return b"\0" if text is None else bytes((len(text) + 1,)) + text.encode()


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "code"),
    [
        (None, -1, 0), ("test-cluster", 1, 0), ("test-cluster", 2, 129), ("test-cluster", -2, 129),
        ("other", 1, 129), ("", 1, 129), ("test-cluster", -1, 42), ("", -1, 42), (None, 1, 42),
    ],
)  # fmt: skip
def test_who_the_client_believes_to_talk_to(run, cluster_id, node_id, code):
    """What Kafka 4.4.0 answers; the connection stays usable."""
    said = compact("test") + compact("1") + compact(cluster_id) + struct.pack(">iB", node_id, 0)

    async def main():
        async with serving() as rig:
            client = await rig.connect()
            reply = await client.ask(frame(18, 5, 7, b"\0" + said))
            assert struct.unpack_from(">ih", reply) == (7, code)
            assert (reply[6] > 1) == (code == 0), "an error comes without keys"
            assert (b"group.version" in reply) == (code == 0)
            response = await ask(client, 18, 4, **SOFTWARE)
            assert {of.api_key: of.max_version for of in response.api_keys}[18] == 5

    run(main())
