import enum
from typing import NamedTuple

from typing_extensions import Buffer

class Stop(enum.IntEnum):
    END = 0
    SHORT = 1
    LENGTH = 2
    MAGIC = 3
    CRC = 4
    OFFSET = 5
    COUNT = 6

class Header(NamedTuple):
    base_offset: int
    size: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

class Scan(NamedTuple):
    stop: Stop
    end: int
    next_offset: int
    batches: int
    records: int
    compressed: int
    of_producers: int
    max_timestamp: int
    needed: int
    epochs: list[tuple[int, int]]

def choose_crc32c(by_cpu: bool) -> bool: ...
def crc32c(data: Buffer, initial: int = 0) -> int: ...
def frame(
    records: Buffer,
    record_count: int,
    base_offset: int,
    base_timestamp: int,
    max_timestamp: int,
    leader_epoch: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
    is_marker: bool = False,
) -> bytes: ...
def reframe(batch: Buffer, records: Buffer) -> bytes: ...
def header(buffer: Buffer, position: int) -> Header: ...
def transactional(buffer: Buffer) -> list[tuple[int, Header]]: ...
def scan(
    buffer: Buffer,
    position: int,
    expected_offset: int,
    segment_base: int = 0,
    leader_epoch: int = -1,
) -> Scan: ...
def find_sound(buffer: Buffer, position: int, minimum_offset: int) -> int: ...
def next_compressed(buffer: Buffer, position: int) -> int: ...
