"""An address under test, and topics and member ids whose order is the same by any measure."""

import asyncio
import bisect
import itertools
import sys
import time

from connection import Call, Connection
from kwire import APIS, encode_request
from scenario import K_PARTITIONS, T0, T1

SETTLE_AT_MOST = 60.0  # s: for a topic change to show, or for a transaction to end, also on a machine with load


class Server:
    """An address, and what it told about itself."""

    def __init__(self, role, address):
        self.role = role  # "ref" or "cand"
        self.host, _, port = address.rpartition(":")
        self.port = int(port)
        self.versions = {}  # api name -> (min, max)
        self.topic_ids = {}  # topic name -> uuid
        self.cluster_id, self.node_id = None, -1
        self.names = {}  # symbol of a placed topic (k0, k1) -> its name here
        self.placed = False  # whether topic ids could be chosen, so that assignments can be compared exactly

    async def call(self, api, version, values, timeout=30.0):
        """One request on a connection of its own."""
        conn = await Connection.open(self)
        try:
            call = Call(-1, "rig", api, version)
            conn.send(call, encode_request(APIS[api], version, conn.next_id(), "rig", values))
            await asyncio.wait_for(call.done.wait(), timeout)
            if call.error:
                raise ConnectionError(f"{self.role} {self.host}:{self.port}: {api} v{version}: {call.error}")
            return call.raw
        finally:
            conn.close()

    def newest(self, api):
        """The newest version of a request that both the server and the rig know."""
        return min(self.versions[api][1], APIS[api].versions[1])

    async def alive(self, seconds=10.0):
        """Wait until connections are accepted: a candidate may be restarting after a crash in the scenario before."""
        for _ in range(int(seconds / 0.1)):
            try:
                (await Connection.open(self)).close()
                return
            except (OSError, TimeoutError):
                await asyncio.sleep(0.1)

    async def prepare(self, placed=True):
        """Learn versions, make the topics (k0 and k1 only when asked to), wait until the coordinator answers."""
        reply = await self.call("ApiVersions", 0, {})
        names = {api.key: api.name for api in APIS.values()}
        self.versions = {names[a["api_key"]]: (a["min_version"], a["max_version"]) for a in reply["api_keys"] if a["api_key"] in names}
        await self._topics()
        self.names = {"k0": T0, "k1": T1}
        if placed:
            await self._placed_topics()
        for attempt in range(60):
            version = min(3, self.versions["FindCoordinator"][1])
            found = await self.call("FindCoordinator", version, {"key": "warm-up", "coordinator_keys": ["warm-up"]})
            if found["error_code"] == 0:
                lists = await self.call("ListGroups", self.versions["ListGroups"][0], {})
                if lists["error_code"] == 0 and await self._transactions_ready():
                    return
            await asyncio.sleep(0.5)
        raise ConnectionError(f"{self.role} {self.host}:{self.port}: no coordinator after 30 s: {found}")

    async def _transactions_ready(self):
        if "InitProducerId" not in self.versions:
            return True
        key = {"key": "warm-up", "key_type": 1, "coordinator_keys": ["warm-up"]}
        found = await self.call("FindCoordinator", min(3, self.versions["FindCoordinator"][1]), key)
        if found["error_code"]:
            return False
        for i in range(8):  # ids that fall into different partitions of the transaction log
            ask = {"transactional_id": f"warm-up-{i}", "transaction_timeout_ms": 1000}
            if (await self.call("InitProducerId", 1, ask))["error_code"]:
                return False
        return True

    async def _topics(self):
        version = min(12, self.versions["Metadata"][1])
        for attempt in range(20):
            meta = await self.call("Metadata", version, {"topics": [{"name": T0}, {"name": T1}], "allow_auto_topic_creation": False})
            self.cluster_id = meta.get("cluster_id")
            self.node_id = next((b["node_id"] for b in meta["brokers"] if b["port"] == self.port), -1)
            missing = [t["name"] for t in meta["topics"] if t["error_code"] or not t["partitions"]]
            if not missing:
                self.topic_ids = {t["name"]: t.get("topic_id") for t in meta["topics"]}
                return
            if attempt == 0 and "CreateTopics" in self.versions:
                topics = [{"name": t, "num_partitions": 4, "replication_factor": 1} for t in missing]
                await self.call("CreateTopics", self.newest("CreateTopics"), {"topics": topics})
            await asyncio.sleep(0.25)
        raise ConnectionError(f"{self.role} {self.host}:{self.port}: create topics {T0} and {T1} with 4 partitions first")


    # -- topics whose ids are in a known order --------------------------------------------------------------------------------

    async def _placed_topics(self):
        """k0 and k1: topics whose ids Kafka's hash sets, its sorting of ids and the names all put in the same order."""
        if not {"CreateTopics", "DeleteTopics"} <= set(self.versions):
            return
        try:
            for symbol, partitions in K_PARTITIONS.items():
                self.names[symbol], topic_id = await self._find_or_place(symbol, partitions)
                self.topic_ids[self.names[symbol]] = topic_id
            self.placed = True
        except (ConnectionError, TimeoutError) as e:
            print(f"{self.role}: assignments over several topics are not compared exactly: {e}", file=sys.stderr)
            self.names = {"k0": T0, "k1": T1}

    async def _find_or_place(self, symbol, partitions):
        prefix = f"diff-{symbol}."
        everything = await self.call("Metadata", min(12, self.versions["Metadata"][1]), {"topics": None}, 30.0)
        for topic in everything["topics"]:
            if topic["name"].startswith(prefix) and in_slot(topic.get("topic_id"), symbol) and len(topic["partitions"]) == partitions:
                return topic["name"], topic["topic_id"]
        taken = {t["name"] for t in everything["topics"]}
        names = (n for n in (f"{prefix}{i:04}" for i in itertools.count()) if n not in taken)
        for _ in range(60):
            batch = list(itertools.islice(names, 16))
            made = await self.create_topics(dict.fromkeys(batch, partitions), 30.0)
            good = [n for n, i in made.items() if in_slot(i, symbol)]
            await self.delete_topics([n for n in made if n != (good or [None])[0]], 30.0)
            if good:
                await self.wait_for_topic(good[0], partitions)
                return good[0], made[good[0]]
        raise ConnectionError(f"no id for {symbol} in 960 attempts")

    async def create_topics(self, partitions, timeout=10.0):
        """Create topics {name: partitions}; {name: id} of those that were made."""
        version = self.newest("CreateTopics")
        topics = [{"name": n, "num_partitions": p, "replication_factor": 1} for n, p in partitions.items()]
        reply = await self.call("CreateTopics", version, {"topics": topics}, timeout)
        made = {t["name"]: t.get("topic_id") for t in reply["topics"] if t["error_code"] == 0}
        if version < 7:
            for name in made:
                made[name] = await self.wait_for_topic(name, partitions[name])
        return made

    async def delete_topics(self, names, timeout=10.0):
        if names:
            version = self.newest("DeleteTopics")
            fields = {"topics": [{"name": n} for n in names]} if version >= 6 else {"topic_names": list(names)}
            await self.call("DeleteTopics", version, fields, timeout)

    async def wait_for_topic(self, name, partitions):
        """Until Metadata shows a topic with so many partitions (None: no such topic) and the coordinator can know. Its id."""
        version = min(12, self.versions["Metadata"][1])
        deadline = time.monotonic() + SETTLE_AT_MOST
        while True:
            meta = await self.call("Metadata", version, {"topics": [{"name": name}], "allow_auto_topic_creation": False})
            topic = meta["topics"][0]
            seen = len(topic["partitions"]) if topic["error_code"] == 0 else None
            if seen == partitions or time.monotonic() > deadline:
                return topic.get("topic_id")
            await asyncio.sleep(0.02)


def in_slot(topic_id, symbol):
    """Whether a topic id suits a symbol. Ids of k0, k1 and d0 then come in this order in a Java hash set of up to 12 ids (low bits
    of the spread hash), sorted as signed or unsigned numbers (first byte), and by name."""
    if topic_id is None:
        return False
    most, least = (int.from_bytes(topic_id.bytes[i : i + 8], "big") for i in (0, 8))
    xor = most ^ least
    code = (xor >> 32 ^ xor) & 0xFFFFFFFF
    bits, first = (code ^ code >> 16) & 15, topic_id.bytes[0]
    match symbol:
        case "k0":
            return bits == 0 and first < 0x30
        case "k1":
            return bits == 1 and 0x30 <= first < 0x50
    return bits & 2 and 0x50 <= first < 0x80


def java_hash(text):
    code = 0
    for unit in text.encode("utf-16-be")[1::2]:  # ASCII
        code = (31 * code + unit) & 0xFFFFFFFF
    return code


def ordered_id(who, salt, crowd):
    """A member id whose place in a Java hash map of up to 12 members is that of the name among those of the scenario, which are
    sorted. Each has a bucket of its own, as long as there are 16 or less: within one, Kafka takes whoever came first."""
    bucket = bisect.bisect_left(crowd, who) * 16 // max(16, len(crowd))
    for n in range(10_000):
        text = f"{who}-{salt}{n:04}"
        code = java_hash(text)
        if (code ^ code >> 16) & 15 == bucket:
            return text
    raise AssertionError(who)
