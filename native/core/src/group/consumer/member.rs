//! One member of a consumer group: what its records say (types 5, 7 and 8), and its timers.

use std::sync::Arc;

use kcoord_timer::{TimerId, slab::NO_ROW};

use super::reconcile::Current;
use super::subscription::TopicNames;
use crate::record::consumer::{
    ClassicMemberMetadata, ClassicProtocol, MemberMetadataValue, MemberState,
};
use crate::response::MemberType;
use crate::topic_partition::{AssignedPartition, TopicPartition};

/// A static member that left for a while has this epoch.
pub const LEFT_FOR_A_WHILE: i32 = -2;

#[derive(Debug)]
pub struct Member {
    pub id: Arc<str>,
    /// When its session ends. The timer may be armed for an earlier time, never for a later one.
    pub deadline_ms: i64,
    pub session_timer: TimerId,
    /// While it has partitions to give up.
    pub rebalance_timer: TimerId,
    /// Row of its group.
    pub group: u32,
    pub member_epoch: i32,
    pub previous_member_epoch: i32,
    pub rebalance_timeout_ms: i32,
    pub state: MemberState,
    /// A record of type 5 or 8 made it; one of type 7 alone does not.
    pub is_there: bool,
    pub names: TopicNames,
    texts: Texts,
    pub assigned: Box<[AssignedPartition]>,
    pub revoking: Box<[AssignedPartition]>,
    /// None was written for it.
    pub target: Option<Arc<[TopicPartition]>>,
    /// Of a member that uses JoinGroup and SyncGroup.
    pub classic: Option<Box<ClassicMember>>,
}

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
    pub fn new(id: Arc<str>, group: u32, names: TopicNames) -> Self {
        Member {
            id,
            deadline_ms: 0,
            session_timer: TimerId::NONE,
            rebalance_timer: TimerId::NONE,
            group,
            member_epoch: 0,
            previous_member_epoch: -1,
            rebalance_timeout_ms: -1,
            state: MemberState::Stable,
            is_there: false,
            names,
            texts: Texts::default(),
            assigned: Box::default(),
            revoking: Box::default(),
            target: None,
            classic: None,
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

    pub fn client_id(&self) -> &str {
        self.texts.get(Text::ClientId).unwrap_or_default()
    }

    pub fn client_host(&self) -> &str {
        self.texts.get(Text::ClientHost).unwrap_or_default()
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
        self.texts.all.len()
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

    /// Takes over what a record of type 5 says, but for the names.
    pub fn store_metadata(&mut self, value: &MemberMetadataValue<'_>) {
        self.texts = Texts::of([
            (Text::ClientId, Some(value.client_id)),
            (Text::ClientHost, Some(value.client_host)),
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
        Member::new(Arc::default(), NO_ROW, TopicNames::default())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    ClientId,
    ClientHost,
    InstanceId,
    RackId,
    ServerAssignor,
    Regex,
}

const TEXTS: usize = 6;

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
    use super::*;

    #[test]
    fn a_member_keeps_what_its_record_says() {
        let names: TopicNames = Arc::from(["t1".into(), "t2".into()]);
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
            let mut member = Member::new(Arc::from("m"), 3, Arc::clone(&names));
            member.store_metadata(&value);
            assert_eq!(member.metadata(), value);
            assert_eq!((member.client_id(), member.client_host()), ("app", ""));
            assert_eq!((member.instance_id(), member.regex()), (instance_id, regex));
        }
    }
}
