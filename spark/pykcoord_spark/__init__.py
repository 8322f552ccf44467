"""pykcoord on Spark. So far: the log of shards on shared storage, in `shard_log`."""
