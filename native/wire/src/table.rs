//! The one table of the APIs that the core owns. What follows from it: [`ApiKey`](crate::header::ApiKey)
//! and [`APIS`](crate::header::APIS), the bodies of requests and responses in [`api`](crate::api) with
//! everything that is done with any of them, and what the node and Python know of each API.

/// Gives the table to a macro. A line has Kafka's name and key, the versions that are served, the
/// first flexible one, what a request names (one `group`, one in its `commit`, several `groups`, or
/// `partitions` of `__consumer_offsets`), and the file of the API in `api`.
///
/// Keys, versions and encodings are exactly those of Kafka 4.3. The minima (0 for the group APIs,
/// OffsetCommit 2, OffsetFetch 1) are what clients with an exact-version feature map need
/// (librdkafka before 2.11; KAFKA-18659, KAFKA-19444).
macro_rules! with_apis {
    ($then:ident) => {
        $then! {
            OffsetCommit = 8, 2 to 10, flexible 8, group in offset_commit;
            OffsetFetch = 9, 1 to 10, flexible 6, groups in offset_fetch;
            JoinGroup = 11, 0 to 9, flexible 6, group in join_group;
            Heartbeat = 12, 0 to 4, flexible 4, group in heartbeat;
            LeaveGroup = 13, 0 to 5, flexible 4, group in leave_group;
            SyncGroup = 14, 0 to 5, flexible 4, group in sync_group;
            DescribeGroups = 15, 0 to 6, flexible 5, groups in describe_groups;
            ListGroups = 16, 0 to 5, flexible 3, groups in list_groups;
            WriteTxnMarkers = 27, 1 to 2, flexible 1, partitions in write_txn_markers;
            TxnOffsetCommit = 28, 0 to 6, flexible 3, commit in txn_offset_commit;
            DeleteGroups = 42, 0 to 3, flexible 2, groups in delete_groups;
            OffsetDelete = 47, 0 to 0, flexible NEVER, group in offset_delete;
            ConsumerGroupHeartbeat = 68, 0 to 1, flexible 0, group in consumer_group_heartbeat;
            ConsumerGroupDescribe = 69, 0 to 1, flexible 0, groups in consumer_group_describe;
        }
    };
}

pub(crate) use with_apis;
