"""The same faults for a cluster of this project and for three brokers of Apache Kafka."""
