"""pykcoord's log beside Kafka's: both directions, bad directories, transactions in a log."""
