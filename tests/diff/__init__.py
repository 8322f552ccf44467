"""The comparison with Apache Kafka 4.3.1, answer by answer; the rig that does it is in `rig/`."""
