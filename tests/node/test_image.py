"""What the metadata log of a real cluster comes to: `metadata-log.bin` are batches of three brokers
of Kafka 4.4.0 (those without records of interest left out) while a node came, led, was killed, and
gave partitions back; `metadata-log.json` is what a broker then said of topics and brokers."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from pykcoord.node.image import BROKER_KIND, GROUP_KIND, TOPIC_KIND, Image
from pykcoord.node.metadata_records import (
    ConfigSet,
    PartitionChanged,
    PartitionSet,
    TopicGone,
    TopicSet,
    TransactionBegun,
    TransactionEnded,
    UnknownRecordError,
    batches_of,
    decode_record,
)

_RECORDED = Path(__file__).with_name("metadata-log.bin")
_EXPECTED = json.loads(Path(__file__).with_name("metadata-log.json").read_text())
_ID = uuid.UUID(int=7)


def _recorded() -> Image:
    image = Image()
    for batch in batches_of(_RECORDED.read_bytes()):
        image.apply_batch(batch)
    return image


def test_a_recorded_log_is_what_a_broker_says() -> None:
    image = _recorded()
    assert set(image.topics) == set(_EXPECTED["topics"])
    for name, told in _EXPECTED["topics"].items():
        assert str(image.topics[name]) == told["topic_id"]
        found = {
            str(number): {
                "leader": one.leader,
                "leader_epoch": one.leader_epoch,
                "replicas": list(one.replicas),
                "isr": sorted(one.isr),
            }
            for number, one in image.of(name).items()
        }
        assert found == told["partitions"], name
    alive = {
        str(one.broker_id): [one.endpoints[0].host, one.endpoints[0].port, one.rack]
        for one in image.brokers.values()
        if not one.is_fenced
    }
    assert alive == _EXPECTED["brokers"]
    assert image.features["metadata.version"] == 33
    assert image.configs[BROKER_KIND, ""] == {"min.insync.replicas": "2"}


def test_a_batch_that_is_cut_off_waits_for_its_rest() -> None:
    data = _RECORDED.read_bytes()
    whole = list(batches_of(data))
    assert list(batches_of(data[:-1])) == whole[:-1]
    assert list(batches_of(data[:30])) == []


def _partition(**changes: object) -> PartitionSet:
    fields = PartitionSet(_ID, 0, (1, 2), (1, 2), (), (), 1, 5, 9, 0)
    return fields._replace(**changes)  # type: ignore[arg-type]


def _change(**changes: object) -> PartitionChanged:
    fields = PartitionChanged(_ID, 0, None, None, None, None, None, None)
    return fields._replace(**changes)  # type: ignore[arg-type]


def _image() -> Image:
    image = Image()
    image.apply(TopicSet("t", _ID))
    image.apply(_partition())
    return image


def test_a_leader_that_is_named_begins_an_epoch_and_any_change_counts() -> None:
    image = _image()
    image.apply(_change(isr=(1,)))
    placement = image.of("t")[0]
    assert (placement.leader, placement.leader_epoch, placement.epoch) == (1, 5, 10)
    assert placement.isr == (1,)
    image.apply(_change(leader=1))  # the same one, under a new epoch
    image.apply(_change(leader=-1))
    placement = image.of("t")[0]
    assert (placement.leader, placement.leader_epoch, placement.epoch) == (-1, 7, 12)


def test_a_transaction_of_the_controller_counts_at_its_end() -> None:
    image = _image()
    image.apply(TransactionBegun())
    image.apply(_change(leader=2))
    assert image.of("t")[0].leader == 1
    image.apply(TransactionEnded(True))
    assert image.of("t")[0].leader == 2
    image.apply(TransactionBegun())
    image.apply(TopicGone(_ID))
    image.apply(TransactionEnded(False))
    assert image.of("t")


def test_a_topic_that_is_deleted_takes_its_partitions_and_settings() -> None:
    image = _image()
    image.apply(ConfigSet(2, "t", "min.insync.replicas", "2"))
    before = image.topics_version
    image.apply(TopicGone(_ID))
    assert (image.topics, dict(image.of("t")), image.configs) == ({}, {}, {})
    assert image.topics_version > before


def test_replicas_of_a_broker_are_found() -> None:
    image = _image()
    assert list(image.replicas_of(2, "t")) == [0]
    assert list(image.replicas_of(3, "t")) == []
    assert list(image.replicas_of(2, "other")) == []


def test_topics_and_groups_that_change_are_touched_and_those_that_get_other_leaders_are_not() -> (
    None
):
    image = _image()
    assert [*image.touched] == [(TOPIC_KIND, "t")]
    for record, touched in [
        (_change(leader=2), []),
        (_change(isr=(1,)), []),
        (_change(replicas=(1, 3)), [(TOPIC_KIND, "t")]),
        (_partition(partition=1), [(TOPIC_KIND, "t")]),
        (ConfigSet(GROUP_KIND, "g", "consumer.session.timeout.ms", "50000"), [(GROUP_KIND, "g")]),
        (ConfigSet(BROKER_KIND, "1", "cordoned.log.dirs", "*"), []),
        (TopicGone(_ID), [(TOPIC_KIND, "t")]),
    ]:
        image.touched.clear()
        image.apply(record)
        assert [*image.touched] == touched


def test_a_newer_record_of_a_type_that_counts_is_refused() -> None:
    with pytest.raises(UnknownRecordError, match="type 5 and version 9, and up to 2 are known"):
        decode_record(bytes((1, 5, 9)))
    assert decode_record(bytes((1, 20, 0))) is None  # NoOpRecord
    assert decode_record(bytes((1, 99, 7))) is None  # a type of its own is passed over
    with pytest.raises(UnknownRecordError, match="no record"):
        decode_record(bytes((1, 2, 0, 200)))
