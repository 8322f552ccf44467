"""Apache Kafka 4.4.0 itself: its jars, a single-node broker, its command-line tools."""
