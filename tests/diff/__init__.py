"""The comparison with Apache Kafka 4.4.0, answer by answer; the rig that does it is in `rig/`."""
