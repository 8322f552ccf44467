"""What is said of a refused request, to its client and in the log."""

from __future__ import annotations

import datetime

from support.kio_client import ask

from .conftest import serving


def test_a_text_that_names_what_is_long_is_cut(run):
    """No string of the protocol may be longer than 32,767 bytes."""

    async def main():
        async with serving() as rig:
            client = await rig.connect()
            asked = {"resource_type": 2, "configuration_keys": None}
            for v, name in [(1, "x" * 32_767), (4, "é" * 16_380)]:
                resources = [{**asked, "resource_name": name}]
                fields = {"include_synonyms": False, "include_documentation": False}
                response = await ask(client, 32, v, resources=resources, **fields)
                text = response.results[0].error_message
                assert text.startswith("Topic " + name[:10_000])
                assert 32_760 < len(text.encode()) <= 32_767

    run(main())


def test_a_refused_producer_is_told_of_once_in_the_log(run, caplog):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            data = {"index": 0, "records": None}
            topics = [{"name": "orders", "partition_data": [data]}]
            fields = {"transactional_id": None, "acks": 1, "topic_data": topics}
            for _ in range(20):
                response = await ask(client, 0, 8, timeout=datetime.timedelta(seconds=1), **fields)
                refused = response.responses[0].partition_responses[0]
                assert refused.error_code.value == 44
                assert "keeps no records: point the producer's bootstrap.servers" in (
                    refused.error_message
                )

    run(main())
    assert caplog.text.count("Produce refused (1 times since") == 1
    assert caplog.text.count("Produce refused") == 1
