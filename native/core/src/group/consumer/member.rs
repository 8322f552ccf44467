//! One member of a consumer group: what its records say (types 5, 7 and 8), and its timers.

use std::sync::Arc;

use kcoord_timer::{TimerId, slab::NO_ROW};

use super::client::Client;
use super::reconcile::Current;
use super::subscription::TopicNames;
use crate::record::consumer::{
    ClassicMemberMetadata, ClassicProtocol, MemberMetadataValue, MemberState,
};
use crate::response::{MemberId, MemberType};
use crate::topic_partition::{AssignedPartition, TopicPartition, into_set};

/// A static member that left for a while has this epoch.
pub const LEFT_FOR_A_WHILE: i32 = -2;

/// What a heartbeat reads comes first, and is one cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Member {
    pub id: MemberId,
    /// When its session ends. The timer may be armed for an earlier time, never for a later one.
    pub deadline_ms: i64,
    pub session_timer: TimerId,
    /// None was told yet.
    client: Option<Arc<Client>>,
    /// Of a member that uses JoinGroup and SyncGroup.
    pub classic: Option<Box<ClassicMember>>,
    pub member_epoch: i32,
    pub state: MemberState,
    /// A record of type 5 or 8 made it; one of type 7 alone does not.
    pub is_there: bool,
    /// Row of its group.
    pub group: u32,
    pub previous_member_epoch: i32,
    pub rebalance_timeout_ms: i32,
    /// While it has partitions to give up.
    pub rebalance_timer: TimerId,
    pub names: TopicNames,
    texts: Texts,
    pub assigned: Box<[AssignedPartition]>,
    pub revoking: Box<[AssignedPartition]>,
    /// None was written for it.
    pub target: Option<Arc<[TopicPartition]>>,
}

const _: () = assert!(size_of::<Member>() == 192, "a member is three cache lines");
const _: () = assert!(core::mem::offset_of!(Member, group) == 64, "the first is a heartbeat's");

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassicMember {
    pub session_timeout_ms: i32,
    pub protocols: Vec<(Box<str>, Box<[u8]>)>,
}

impl ClassicMember {
    fn of(metadata: &ClassicMemberMetadata<'_>) -> Self {
        let protocols = metadata.supported_protocols.iter();
        ClassicMember {
            session_timeout_ms: metadata.session_timeout_ms,
            protocols: protocols.map(|of| (of.name.into(), of.metadata.into())).collect(),
        }
    }

    fn metadata(&self) -> ClassicMemberMetadata<'_> {
        let protocols = self.protocols.iter();
        ClassicMemberMetadata {
            session_timeout_ms: self.session_timeout_ms,
            supported_protocols: protocols
                .map(|(name, metadata)| ClassicProtocol { name, metadata })
                .collect(),
        }
    }
}

impl Member {
    /// One of which only the id is known.
    pub fn new(id: MemberId, group: u32, names: TopicNames) -> Self {
        Member {
            id,
            deadline_ms: 0,
            session_timer: TimerId::NONE,
            client: None,
            classic: None,
            member_epoch: 0,
            state: MemberState::Stable,
            is_there: false,
            group,
            previous_member_epoch: -1,
            rebalance_timeout_ms: -1,
            rebalance_timer: TimerId::NONE,
            names,
            texts: Texts::default(),
            assigned: Box::default(),
            revoking: Box::default(),
            target: None,
        }
    }

    pub fn current(&self) -> Current<'_> {
        Current {
            state: self.state,
            member_epoch: self.member_epoch,
            previous_member_epoch: self.previous_member_epoch,
            assigned: &self.assigned,
            revoking: &self.revoking,
        }
    }

    pub fn target(&self) -> &[TopicPartition] {
        self.target.as_deref().unwrap_or_default()
    }

    /// What it may read: with what it has yet to give up.
    pub fn held(&self) -> Vec<TopicPartition> {
        into_set(self.assigned.iter().chain(&self.revoking).map(|has| has.at).collect())
    }

    pub fn client_id(&self) -> &str {
        self.client.as_ref().map_or("", |client| &client.id)
    }

    pub fn client_host(&self) -> &str {
        self.client.as_ref().map_or("", |client| &client.host)
    }

    /// For a prefetch.
    pub fn client(&self) -> Option<&Client> {
        self.client.as_deref()
    }

    pub fn instance_id(&self) -> Option<&str> {
        self.texts.get(Text::InstanceId)
    }

    pub fn rack_id(&self) -> Option<&str> {
        self.texts.get(Text::RackId)
    }

    pub fn server_assignor(&self) -> Option<&str> {
        self.texts.get(Text::ServerAssignor)
    }

    /// Of the client, its place, its expression and the like.
    pub fn text_bytes(&self) -> usize {
        self.texts.all.len() + self.client_id().len() + self.client_host().len()
    }

    /// `""`: none.
    pub fn regex(&self) -> &str {
        self.texts.get(Text::Regex).unwrap_or_default()
    }

    pub fn has_left_for_a_while(&self) -> bool {
        self.member_epoch == LEFT_FOR_A_WHILE
    }

    /// Whether it has what the target of this epoch says.
    pub fn is_reconciled_to(&self, assignment_epoch: i32) -> bool {
        self.state == MemberState::Stable && self.member_epoch == assignment_epoch
    }

    pub fn member_type(&self) -> MemberType {
        match self.classic {
            Some(_) => MemberType::Classic,
            None => MemberType::Consumer,
        }
    }

    /// What its record of type 5 says.
    pub fn metadata(&self) -> MemberMetadataValue<'_> {
        MemberMetadataValue {
            instance_id: self.instance_id(),
            rack_id: self.rack_id(),
            client_id: self.client_id(),
            client_host: self.client_host(),
            subscribed_topic_names: self.names.iter().map(|name| &**name).collect(),
            // As Kafka writes it.
            subscribed_topic_regex: Some(self.regex()),
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            server_assignor: self.server_assignor(),
            classic: self.classic.as_deref().map(ClassicMember::metadata),
        }
    }

    /// Takes over what a record of type 5 says, but for the names. `client`: the one of the record.
    pub fn store_metadata(&mut self, value: &MemberMetadataValue<'_>, client: Arc<Client>) {
        debug_assert!(client.is(value.client_id, value.client_host));
        self.client = Some(client);
        self.texts = Texts::of([
            (Text::InstanceId, value.instance_id),
            (Text::RackId, value.rack_id),
            (Text::ServerAssignor, value.server_assignor),
            (Text::Regex, value.subscribed_topic_regex.filter(|regex| !regex.is_empty())),
        ]);
        self.rebalance_timeout_ms = value.rebalance_timeout_ms;
        self.classic = value.classic.as_ref().map(|of| Box::new(ClassicMember::of(of)));
        self.is_there = true;
    }
}

impl Default for Member {
    fn default() -> Self {
        Member::new(MemberId::default(), NO_ROW, TopicNames::default())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    InstanceId,
    RackId,
    ServerAssignor,
    Regex,
}

const TEXTS: usize = 4;

/// Several strings in one allocation.
#[derive(Debug, Default)]
struct Texts {
    all: Box<str>,
    /// Where each ends; the first starts at 0.
    ends: [u32; TEXTS],
    /// Which are there, as bits.
    present: u8,
}

impl Texts {
    /// In the order of [`Text`].
    fn of(texts: [(Text, Option<&str>); TEXTS]) -> Texts {
        let mut all =
            String::with_capacity(texts.iter().filter_map(|(_, text)| *text).map(str::len).sum());
        let mut ends = [0; TEXTS];
        let mut present = 0;
        for (at, (which, text)) in texts.into_iter().enumerate() {
            debug_assert_eq!(which as usize, at);
            all.push_str(text.unwrap_or_default());
            ends[at] = all.len() as u32;
            present |= u8::from(text.is_some()) << at;
        }
        Texts { all: all.into_boxed_str(), ends, present }
    }

    fn get(&self, which: Text) -> Option<&str> {
        let at = which as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        let text = &self.all[start..self.ends[at] as usize];
        (self.present & 1 << at != 0).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use ahash::RandomState;

    use super::super::client::ClientTable;
    use super::*;

    #[test]
    fn a_member_keeps_what_its_record_says() {
        let names: TopicNames = Arc::from(["t1".into(), "t2".into()]);
        let hasher = RandomState::with_seeds(1, 2, 3, 4);
        let mut clients = ClientTable::default();
        for (instance_id, assignor, regex) in
            [(None, Some("range"), ""), (Some("i1"), None, "t.*"), (Some(""), None, "")]
        {
            let value = MemberMetadataValue {
                instance_id,
                rack_id: Some("r"),
                client_id: "app",
                client_host: "",
                subscribed_topic_names: vec!["t1", "t2"],
                subscribed_topic_regex: Some(regex),
                rebalance_timeout_ms: 7,
                server_assignor: assignor,
                classic: Some(ClassicMemberMetadata {
                    session_timeout_ms: 9,
                    supported_protocols: [("range", &b"12"[..]), ("sticky", b"")]
                        .map(|(name, metadata)| ClassicProtocol { name, metadata })
                        .to_vec(),
                }),
            };
            let mut member = Member::new(MemberId::new("m"), 3, Arc::clone(&names));
            let client = clients.intern(&hasher, "app", "");
            member.store_metadata(&value, client);
            assert_eq!(member.metadata(), value);
            assert_eq!((member.client_id(), member.client_host()), ("app", ""));
            assert_eq!((member.instance_id(), member.regex()), (instance_id, regex));
        }
    }
}
