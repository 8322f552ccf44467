"""Drop-in assignors for Kafka clients in Python, computed by the native core.

One module a client library, named as its distribution: `kafka_python`, `aiokafka`. Each needs its
library and imports nothing of the other's; this package itself needs neither.
"""
