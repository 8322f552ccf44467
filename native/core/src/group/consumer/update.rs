//! A member's record of type 5: what a request says of it, written if it is news.

use super::member::Member;
use crate::group::Machine;
use crate::record::consumer::{ClassicMemberMetadata, MemberMetadataValue};
use crate::response::MemberId;

/// What a request says of a member; `None`: nothing, so that it stays as it is.
#[derive(Debug)]
pub struct Said<'a> {
    pub instance_id: Option<&'a str>,
    pub rack_id: Option<&'a str>,
    pub client_id: &'a str,
    pub client_host: &'a str,
    pub topic_names: Option<Vec<&'a str>>,
    pub topic_regex: Option<&'a str>,
    /// Milliseconds; -1: nothing.
    pub rebalance_timeout_ms: i32,
    pub server_assignor: Option<&'a str>,
    /// Always told: of a member that uses JoinGroup.
    pub classic: Option<ClassicMemberMetadata<'a>>,
}

/// What the update of a member changed.
#[derive(Debug, Default)]
pub struct Changes {
    pub names: bool,
    /// The regular expression that it had before; `""`: none.
    pub regex: Option<Box<str>>,
}

/// What a member has before it has said anything.
const NEW_MEMBER: MemberMetadataValue<'static> = MemberMetadataValue {
    instance_id: None,
    rack_id: None,
    client_id: "",
    client_host: "",
    subscribed_topic_names: Vec::new(),
    subscribed_topic_regex: Some(""),
    rebalance_timeout_ms: -1,
    server_assignor: None,
    classic: None,
};

impl Machine {
    /// `known`: the row of a member that is there already. Returns the member's row.
    pub fn update_consumer_member(
        &mut self,
        now_ms: i64,
        group: u32,
        known: Option<u32>,
        member_id: &str,
        said: Said<'_>,
    ) -> (u32, Changes) {
        let member = known.map(|row| &self.registry.consumer_members[row]);
        let member_id = match member {
            Some(member) => member.id.clone(),
            None => MemberId::new(member_id),
        };
        let (news, changes) = news(member, said);
        if let Some(encoded) = news {
            self.emit_member_metadata(now_ms, group, &member_id, &encoded);
        }
        let row = self.registry.find_consumer_member(group, &member_id);
        let row = row.expect("its record made it");
        if known.is_none() {
            self.tell_consumer_joined(row, None);
        }
        (row, changes)
    }
}

/// What is said of a member as a record of type 5, if it is not known yet, and what it changes.
fn news(member: Option<&Member>, said: Said<'_>) -> (Option<Vec<u8>>, Changes) {
    let has = member.map_or(NEW_MEMBER, Member::metadata);
    let says = said.of(&has);
    if member.is_some() && says == has {
        return (None, Changes::default());
    }
    let regex = says.subscribed_topic_regex != has.subscribed_topic_regex;
    let changes = Changes {
        names: says.subscribed_topic_names != has.subscribed_topic_names,
        regex: regex.then(|| has.subscribed_topic_regex.unwrap_or_default().into()),
    };
    let mut encoded = Vec::new();
    says.encode(&mut encoded);
    (Some(encoded), changes)
}

impl<'a> Said<'a> {
    /// What the member has with what is said.
    fn of(self, has: &MemberMetadataValue<'a>) -> MemberMetadataValue<'a> {
        let names = self.topic_names.map(|mut names| {
            names.sort_unstable();
            names.dedup();
            names
        });
        MemberMetadataValue {
            instance_id: self.instance_id.or(has.instance_id),
            rack_id: self.rack_id.or(has.rack_id),
            client_id: self.client_id,
            client_host: self.client_host,
            subscribed_topic_names: names.unwrap_or_else(|| has.subscribed_topic_names.clone()),
            subscribed_topic_regex: self.topic_regex.or(has.subscribed_topic_regex),
            rebalance_timeout_ms: match self.rebalance_timeout_ms {
                -1 => has.rebalance_timeout_ms,
                said => said,
            },
            server_assignor: self.server_assignor.or(has.server_assignor),
            classic: self.classic,
        }
    }
}
