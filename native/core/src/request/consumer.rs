//! Requests of the consumer protocol (KIP-848).

use crate::topic_partition::TopicPartition;

/// What is `None`, and a rebalance timeout of -1, has not changed since the member said it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerGroupHeartbeatRequest<'a> {
    /// The group.
    pub group_id: &'a str,
    /// `""`: the coordinator makes one (v0).
    pub member_id: &'a str,
    /// 0: joins; -1: leaves; -2: a static member leaves for a while.
    pub member_epoch: i32,
    /// Of a static member (KIP-345).
    pub instance_id: Option<&'a str>,
    /// How long the member may take to give up partitions, in ms; -1: unchanged.
    pub rebalance_timeout_ms: i32,
    /// As sent: in any order, with repetitions.
    pub subscribed_topic_names: Option<Vec<&'a str>>,
    /// RE2 pattern of topic names; `None`: unchanged.
    pub subscribed_topic_regex: Option<&'a str>,
    /// Apart, since a steady heartbeat says none, and requests are moved about.
    pub preferences: Option<Box<Preferences<'a>>>,
    /// What the member owns: ascending, each partition once.
    pub topic_partitions: Option<Vec<TopicPartition>>,
}

impl<'a> ConsumerGroupHeartbeatRequest<'a> {
    /// The rack of the client (KIP-881).
    pub fn rack_id(&self) -> Option<&'a str> {
        self.preferences.as_ref()?.rack_id
    }

    /// The assignor that the member asks for.
    pub fn server_assignor(&self) -> Option<&'a str> {
        self.preferences.as_ref()?.server_assignor
    }
}

/// What a member says of where it is, and of how it wants partitions to be assigned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preferences<'a> {
    /// The rack of the client (KIP-881).
    pub rack_id: Option<&'a str>,
    /// The assignor that the member asks for.
    pub server_assignor: Option<&'a str>,
}

impl<'a> Preferences<'a> {
    /// `None`, which takes no memory, where neither is said.
    pub fn of(rack_id: Option<&'a str>, server_assignor: Option<&'a str>) -> Option<Box<Self>> {
        let preferences = Preferences { rack_id, server_assignor };
        (preferences != Preferences::default()).then(|| Box::new(preferences))
    }
}

/// ConsumerGroupDescribe of one group.
#[derive(Clone, Copy, Debug)]
pub struct ConsumerGroupDescribeRequest<'a> {
    /// The group.
    pub group_id: &'a str,
}
