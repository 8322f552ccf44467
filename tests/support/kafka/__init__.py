"""Apache Kafka 4.3.1 itself: its jars, a single-node broker, its command-line tools."""
