"""Message tables of the requests about transactions; the form is that of `schema.py`."""

TABLES = """
api TxnOffsetCommit 28 0-6 flexible 3
request
  transactional_id string 0+
  group_id string 0+
  producer_id int64 0+
  producer_epoch int16 0+
  generation_id int32 3+ =-1
  member_id string 3+
  group_instance_id string 3+ ? =null
  topics []struct 0+
    name string 0-5
    topic_id uuid 6+
    partitions []struct 0+
      partition_index int32 0+
      committed_offset int64 0+
      committed_leader_epoch int32 2+ =-1
      committed_metadata string 0+ ?
response
  throttle_time_ms int32 0+
  topics []struct 0+
    name string 0-5
    topic_id uuid 6+
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

api DescribeTransactions 65 0-0 flexible 0
request
  transactional_ids []string 0+
response
  throttle_time_ms int32 0+
  transaction_states []struct 0+
    error_code int16 0+
    transactional_id string 0+
    transaction_state string 0+
    transaction_timeout_ms int32 0+
    transaction_start_time_ms int64 0+
    producer_id int64 0+
    producer_epoch int16 0+
    topics []struct 0+
      topic string 0+
      partitions []int32 0+
"""
