"""Message tables of the requests about transactions; the form is that of `schema.py`."""

TABLES = """
api TxnOffsetCommit 28 0-5 flexible 3
request
  transactional_id string 0+
  group_id string 0+
  producer_id int64 0+
  producer_epoch int16 0+
  generation_id int32 3+ =-1
  member_id string 3+
  group_instance_id string 3+ ? =null
  topics []struct 0+
    name string 0+
    partitions []struct 0+
      partition_index int32 0+
      committed_offset int64 0+
      committed_leader_epoch int32 2+ =-1
      committed_metadata string 0+ ?
response
  throttle_time_ms int32 0+
  topics []struct 0+
    name string 0+
    partitions []struct 0+
      partition_index int32 0+
      error_code int16 0+

api AddOffsetsToTxn 25 0-4 flexible 3
request
  transactional_id string 0+
  producer_id int64 0+
  producer_epoch int16 0+
  group_id string 0+
response
  throttle_time_ms int32 0+
  error_code int16 0+

api InitProducerId 22 0-5 flexible 2
request
  transactional_id string 0+ ? =null
  transaction_timeout_ms int32 0+
  producer_id int64 3+ =-1
  producer_epoch int16 3+ =-1
response
  throttle_time_ms int32 0+
  error_code int16 0+
  producer_id int64 0+
  producer_epoch int16 0+

api EndTxn 26 0-5 flexible 3
request
  transactional_id string 0+
  producer_id int64 0+
  producer_epoch int16 0+
  committed bool 0+
response
  throttle_time_ms int32 0+
  error_code int16 0+
  producer_id int64 5+
  producer_epoch int16 5+

api CreateTopics 19 2-7 flexible 5
request
  topics []struct 2+
    name string 2+
    num_partitions int32 2+
    replication_factor int16 2+
    assignments []struct 2+
      partition_index int32 2+
      broker_ids []int32 2+
    configs []struct 2+
      name string 2+
      value string 2+ ?
  timeout_ms int32 2+ =5000
  validate_only bool 2+
response
  throttle_time_ms int32 2+
  topics []struct 2+
    name string 2+
    topic_id uuid 7+
    error_code int16 2+
    error_message string 2+ ?
    num_partitions int32 5+
    replication_factor int16 5+
    configs []struct 5+ ?5+
      name string 5+
      value string 5+ ?
      read_only bool 5+
      config_source int8 5+
      is_sensitive bool 5+
    topic_config_error_code int16 5+ tag0
"""
