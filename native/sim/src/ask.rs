//! A request as its client means it, and its frame. What the checker compares answers with.

use std::fmt;
use std::rc::Rc;

use kcoord_core::consumer_protocol::Subscription;
use kcoord_core::record::{Producer, TransactionResult};
use kcoord_core::request::{
    ConsumerGroupHeartbeatRequest, DeleteGroupsRequest, HeartbeatRequest, JoinGroupProtocol,
    JoinGroupRequest, LeaveGroupMember, LeaveGroupRequest, ListGroupsRequest,
    OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic, OffsetDeleteRequest,
    OffsetDeleteTopic, OffsetFetchRequest, OffsetFetchTopic, Preferences, SyncGroupAssignment,
    SyncGroupRequest, TransactionMarker, TxnOffsetCommitRequest, Uuid,
};
use kcoord_core::topic_partition::TopicPartition;
use kcoord_wire::api::describing::DescribeGroupsRequest;
use kcoord_wire::api::write_txn_markers::{self, Markers};
use kcoord_wire::api::{self, RequestBody};
use kcoord_wire::header::{APIS, ApiKey, begin_request, finish_response};
use rand::RngExt;
use rand_xorshift::XorShiftRng;

use crate::catalogue::Catalogue;
use crate::plan::{GROUPS, TOPICS, protocol_of};

pub const CORRELATION_ID: i32 = 77;

/// Of all members of the consumer protocol.
pub const RACK: &str = "rack-a";

/// A topic, by its number, and some of its partitions.
pub type Named = (usize, Vec<i32>);

/// An offset to commit: topic, partition, offset.
pub type Commit = (usize, i32, i64);

#[derive(Clone, Debug)]
pub struct Ask {
    pub client: usize,
    pub version: i16,
    pub group: usize,
    pub generation_id: i32,
    pub member_id: Rc<str>,
    pub instance_id: Option<&'static str>,
    pub body: Body,
}

#[derive(Clone, Debug)]
pub enum Body {
    Join {
        session_timeout_ms: i32,
        rebalance_timeout_ms: i32,
        protocol: &'static str,
        topics: Vec<usize>,
        /// What it goes on to read while it joins.
        owned: Vec<Named>,
    },
    Sync {
        assignments: Vec<(Rc<str>, Vec<u8>)>,
    },
    Heartbeat,
    /// ConsumerGroupHeartbeat. What is `None` has not changed.
    Beat {
        rebalance_timeout_ms: i32,
        topics: Option<Vec<usize>>,
        /// Ids of topics, and partitions.
        owned: Option<Vec<(u128, i32)>>,
    },
    Leave,
    Commit {
        offsets: Vec<Commit>,
        retention_ms: i64,
        metadata: &'static str,
    },
    CommitInTransaction {
        offsets: Vec<Commit>,
        producer_epoch: i16,
    },
    /// In all shards.
    EndTransaction {
        commits: bool,
        producer_epoch: i16,
        transaction_version: i8,
    },
    Fetch {
        /// `None`: all.
        topics: Option<Vec<Named>>,
        /// Asked for besides the own one, from the version on that can.
        other_group: Option<usize>,
    },
    DeleteOffsets(Named),
    Describe(Vec<usize>),
    DeleteGroups(Vec<usize>),
    List,
    /// A frame that ends too early.
    Garbled,
}

impl Body {
    pub fn api(&self) -> ApiKey {
        match self {
            Body::Join { .. } => ApiKey::JoinGroup,
            Body::Sync { .. } => ApiKey::SyncGroup,
            Body::Heartbeat | Body::Garbled => ApiKey::Heartbeat,
            Body::Beat { .. } => ApiKey::ConsumerGroupHeartbeat,
            Body::Leave => ApiKey::LeaveGroup,
            Body::Commit { .. } => ApiKey::OffsetCommit,
            Body::CommitInTransaction { .. } => ApiKey::TxnOffsetCommit,
            Body::EndTransaction { .. } => ApiKey::WriteTxnMarkers,
            Body::Fetch { .. } => ApiKey::OffsetFetch,
            Body::DeleteOffsets(_) => ApiKey::OffsetDelete,
            Body::Describe(_) => ApiKey::DescribeGroups,
            Body::DeleteGroups(_) => ApiKey::DeleteGroups,
            Body::List => ApiKey::ListGroups,
        }
    }
}

/// The version of each API that a client speaks: clients are of any age.
pub struct Versions([i16; APIS.len()]);

impl Versions {
    /// `is_static`: those that carry an instance id.
    pub fn draw(rng: &mut XorShiftRng, is_static: bool) -> Versions {
        Versions(APIS.map(|spec| {
            let version = rng.random_range(spec.min_version..=spec.max_version);
            let first_static = match spec.api {
                ApiKey::JoinGroup => 5,
                ApiKey::SyncGroup | ApiKey::Heartbeat | ApiKey::LeaveGroup => 3,
                ApiKey::OffsetCommit => 7,
                _ => 0,
            };
            if is_static { version.max(first_static) } else { version }
        }))
    }

    pub fn of(&self, api: ApiKey) -> i16 {
        let at = APIS.iter().position(|spec| spec.api == api).expect("every API is there");
        self.0[at]
    }
}

impl Ask {
    pub fn api(&self) -> ApiKey {
        self.body.api()
    }

    /// Of whoever commits in transactions.
    pub fn producer_id(&self) -> i64 {
        100 + self.client as i64
    }

    /// Whether a fetch asks for stable offsets only.
    pub fn is_stable(&self) -> bool {
        self.client.is_multiple_of(2)
    }

    /// All groups that it names.
    pub fn groups(&self) -> Vec<usize> {
        match &self.body {
            Body::Describe(groups) | Body::DeleteGroups(groups) => groups.clone(),
            Body::Fetch { other_group, .. } if self.version >= 8 => {
                [Some(self.group), *other_group].into_iter().flatten().collect()
            }
            _ => vec![self.group],
        }
    }

    /// The frame, without its length.
    pub fn frame(&self, catalogue: &Catalogue) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        let client_id = ["c0", "c1", "c2", "c3"][self.client % 4];
        let start =
            begin_request(&mut out, self.api(), self.version, CORRELATION_ID, Some(client_id));
        self.with_body(catalogue, |body| api::encode_request(&mut out, self.version, body));
        finish_response(&mut out, start);
        out.drain(..4);
        if matches!(self.body, Body::Garbled) {
            out.truncate(out.len() / 2);
        }
        out
    }

    fn with_body(&self, catalogue: &Catalogue, encode: impl FnOnce(&RequestBody<'_>)) {
        let group_id = GROUPS[self.group];
        let member_id = &*self.member_id;
        let group_instance_id = self.instance_id;
        let generation_id = self.generation_id;
        match &self.body {
            Body::Join { session_timeout_ms, rebalance_timeout_ms, protocol, topics, owned } => {
                let metadata = subscription(topics, owned);
                encode(&RequestBody::JoinGroup(JoinGroupRequest {
                    group_id,
                    session_timeout_ms: *session_timeout_ms,
                    rebalance_timeout_ms: *rebalance_timeout_ms,
                    member_id,
                    group_instance_id,
                    protocol_type: "consumer",
                    protocols: vec![JoinGroupProtocol { name: protocol, metadata: &metadata }],
                    reason: None,
                }));
            }
            Body::Sync { assignments } => {
                let assignments = assignments
                    .iter()
                    .map(|(member_id, assignment)| SyncGroupAssignment { member_id, assignment });
                encode(&RequestBody::SyncGroup(SyncGroupRequest {
                    group_id,
                    generation_id,
                    member_id,
                    group_instance_id,
                    protocol_type: Some("consumer"),
                    protocol_name: Some(protocol_of(self.group)),
                    assignments: assignments.collect(),
                }));
            }
            Body::Heartbeat | Body::Garbled => encode(&RequestBody::Heartbeat(HeartbeatRequest {
                group_id,
                generation_id,
                member_id,
                group_instance_id,
            })),
            Body::Beat { rebalance_timeout_ms, topics, owned } => {
                let names = topics.as_ref();
                let names = names.map(|of| of.iter().map(|topic| TOPICS[*topic]).collect());
                let owned = owned.as_ref();
                let at = |(id, partition): &(u128, i32)| TopicPartition::new(Uuid(*id), *partition);
                encode(&RequestBody::ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest {
                    group_id,
                    member_id,
                    member_epoch: generation_id,
                    instance_id: group_instance_id,
                    rebalance_timeout_ms: *rebalance_timeout_ms,
                    subscribed_topic_names: names,
                    preferences: Preferences::of(topics.as_ref().map(|_| RACK), None),
                    topic_partitions: owned.map(|of| of.iter().map(at).collect()),
                    ..Default::default()
                }));
            }
            Body::Leave => encode(&RequestBody::LeaveGroup(LeaveGroupRequest {
                group_id,
                members: vec![LeaveGroupMember { member_id, group_instance_id, reason: None }],
            })),
            Body::Describe(groups) => {
                let groups = groups.iter().map(|group| GROUPS[*group]).collect();
                let include_authorized_operations = false;
                encode(&RequestBody::DescribeGroups(DescribeGroupsRequest {
                    groups,
                    include_authorized_operations,
                }));
            }
            Body::DeleteGroups(groups) => {
                let groups_names = groups.iter().map(|group| GROUPS[*group]).collect();
                encode(&RequestBody::DeleteGroups(DeleteGroupsRequest { groups_names }));
            }
            Body::List => encode(&RequestBody::ListGroups(ListGroupsRequest::default())),
            Body::EndTransaction { commits, producer_epoch, transaction_version } => {
                let result = match commits {
                    true => TransactionResult::Commit,
                    false => TransactionResult::Abort,
                };
                let marker = TransactionMarker {
                    producer: Producer { id: self.producer_id(), epoch: *producer_epoch },
                    result,
                    coordinator_epoch: 0,
                    transaction_version: *transaction_version,
                };
                let topics = vec![("__consumer_offsets", vec![0, 1, 2])];
                let markers = vec![Markers { marker, topics }];
                encode(&RequestBody::WriteTxnMarkers(write_txn_markers::Request { markers }));
            }
            Body::Commit { .. }
            | Body::CommitInTransaction { .. }
            | Body::Fetch { .. }
            | Body::DeleteOffsets(_) => self.with_offsets(catalogue, encode),
        }
    }

    fn with_offsets(&self, catalogue: &Catalogue, encode: impl FnOnce(&RequestBody<'_>)) {
        let group_id = GROUPS[self.group];
        let id_of =
            |topic: usize| Uuid(catalogue.topics[topic].map_or(u128::MAX, |found| found.id));
        let commit = |offsets: &[Commit], retention_ms, metadata| {
            let topic = |(topic, partition, offset): &Commit| OffsetCommitTopic {
                name: TOPICS[*topic],
                topic_id: id_of(*topic),
                partitions: vec![OffsetCommitPartition {
                    partition_index: *partition,
                    committed_offset: *offset,
                    committed_leader_epoch: -1,
                    committed_metadata: Some(metadata),
                }],
            };
            OffsetCommitRequest {
                group_id,
                generation_id_or_member_epoch: self.generation_id,
                member_id: &self.member_id,
                group_instance_id: self.instance_id,
                retention_time_ms: retention_ms,
                topics: offsets.iter().map(topic).collect(),
            }
        };
        match &self.body {
            Body::Commit { offsets, retention_ms, metadata } => {
                encode(&RequestBody::OffsetCommit(commit(offsets, *retention_ms, metadata)));
            }
            Body::CommitInTransaction { offsets, producer_epoch } => {
                encode(&RequestBody::TxnOffsetCommit(TxnOffsetCommitRequest {
                    transactional_id: "transactions",
                    producer: Producer { id: self.producer_id(), epoch: *producer_epoch },
                    commit: commit(offsets, -1, ""),
                }));
            }
            Body::Fetch { topics, .. } => {
                let topic = |(topic, partitions): &Named| OffsetFetchTopic {
                    name: TOPICS[*topic],
                    topic_id: id_of(*topic),
                    partition_indexes: partitions.clone(),
                };
                let mut topics = topics.as_ref().map(|named| named.iter().map(topic).collect());
                if self.version < 2 {
                    topics = Some(topics.unwrap_or_default());
                }
                let groups = self.groups();
                let group = |group: usize| OffsetFetchRequest {
                    group_id: GROUPS[group],
                    member_id: None,
                    member_epoch: -1,
                    topics: topics.clone(),
                    require_stable: self.is_stable(),
                };
                encode(&RequestBody::OffsetFetch(groups.into_iter().map(group).collect()));
            }
            Body::DeleteOffsets((topic, partitions)) => {
                let topics = vec![OffsetDeleteTopic {
                    name: TOPICS[*topic],
                    partitions: partitions.clone(),
                }];
                encode(&RequestBody::OffsetDelete(OffsetDeleteRequest { group_id, topics }));
            }
            other => unreachable!("{other:?} has no offsets"),
        }
    }
}

fn subscription(topics: &[usize], owned: &[Named]) -> Vec<u8> {
    let owned = owned.iter().map(|(topic, partitions)| (TOPICS[*topic], partitions.clone()));
    let mut out = Vec::with_capacity(32);
    let subscription = Subscription {
        version: 1,
        topics: topics.iter().map(|topic| TOPICS[*topic]).collect(),
        user_data: None,
        owned_partitions: owned.collect(),
        generation_id: -1,
        rack_id: None,
    };
    subscription.encode(&mut out);
    out
}

/// Ids end in a UUID, of which eight characters are enough to tell one from the other.
pub fn short(member_id: &str) -> &str {
    match member_id.len().checked_sub(36) {
        Some(at) => &member_id[at..at + 8],
        None => member_id,
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ask { version, generation_id, .. } = self;
        write!(f, "{:?} v{version} {}", self.api(), GROUPS[self.group])?;
        let is_member = matches!(
            self.body,
            Body::Join { .. }
                | Body::Sync { .. }
                | Body::Heartbeat
                | Body::Beat { .. }
                | Body::Leave
                | Body::Commit { .. }
        );
        if is_member {
            write!(f, " member={:?} generation={generation_id}", short(&self.member_id))?;
            if let Some(instance_id) = self.instance_id {
                write!(f, " instance={instance_id}")?;
            }
        }
        match &self.body {
            Body::Join { session_timeout_ms, protocol, topics, owned, .. } => {
                write!(f, " {protocol} topics={topics:?} session={session_timeout_ms}ms")?;
                if owned.is_empty() { Ok(()) } else { write!(f, " owned={owned:?}") }
            }
            Body::Sync { assignments } if assignments.is_empty() => Ok(()),
            Body::Sync { assignments } => write!(f, " assigns {} members", assignments.len()),
            Body::Commit { offsets, retention_ms, metadata } => {
                for (topic, partition, offset) in offsets {
                    write!(f, " {}-{partition}={offset}", TOPICS[*topic])?;
                }
                if *retention_ms >= 0 && *version < 5 {
                    write!(f, " retention={retention_ms}ms")?;
                }
                if metadata.is_empty() { Ok(()) } else { write!(f, " note={metadata:?}") }
            }
            Body::CommitInTransaction { offsets, producer_epoch } => {
                write!(f, " producer={}/{producer_epoch}", self.producer_id())?;
                offsets.iter().try_for_each(|(topic, partition, offset)| {
                    write!(f, " {}-{partition}={offset}", TOPICS[*topic])
                })
            }
            Body::EndTransaction { commits, producer_epoch, transaction_version } => {
                let end = if *commits { "commit" } else { "abort" };
                let producer_id = self.producer_id();
                write!(f, " {end} producer={producer_id}/{producer_epoch} v{transaction_version}")
            }
            Body::Fetch { topics: None, .. } => f.write_str(" all"),
            Body::Fetch { topics: Some(topics), .. } => write!(f, " {topics:?}"),
            Body::DeleteOffsets(named) => write!(f, " {named:?}"),
            Body::Describe(groups) | Body::DeleteGroups(groups) => write!(f, " {groups:?}"),
            Body::Garbled => f.write_str(" (cut short)"),
            Body::Beat { topics, owned, .. } => {
                if let Some(topics) = topics {
                    write!(f, " topics={topics:?}")?;
                }
                owned.as_ref().map_or(Ok(()), |owned| write!(f, " owned={owned:?}"))
            }
            Body::Heartbeat | Body::Leave | Body::List => Ok(()),
        }
    }
}
