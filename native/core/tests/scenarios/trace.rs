//! How responses and records read in a trace.

use std::collections::BTreeMap;
use std::fmt::Write;

use kcoord_core::ErrorCode;
use kcoord_core::consumer_protocol::{Assignment, Subscription, TopicPartitions};
use kcoord_core::event::{Event, EventKind, EventMember, Moves};
use kcoord_core::record::consumer::ConsumerGroupRecord;
use kcoord_core::record::{
    Batches, GroupMetadataValue, OffsetCommitValue, RecordKey, TransactionResult,
};
use kcoord_core::response::Response;

use crate::consumer;

/// Member ids by the names of members: `@a`, then `@a.2` for a's second id.
#[derive(Default)]
pub struct Names {
    ids: BTreeMap<String, Vec<String>>,
}

impl Names {
    pub fn learn(&mut self, name: &str, id: &str) {
        if self.symbol(id) == id {
            self.ids.entry(name.into()).or_default().push(id.into());
        }
    }

    /// The latest id of a member; `""` before it has one.
    pub fn current(&self, name: &str) -> String {
        self.ids.get(name).and_then(|ids| ids.last()).cloned().unwrap_or_default()
    }

    /// The latest id of a member, or the word itself if nobody goes by it.
    pub fn any(&self, text: &str) -> String {
        let current = self.current(text);
        if current.is_empty() { self.resolve(text) } else { current }
    }

    /// `@a`, `@a.2`, or an id as it stands.
    pub fn resolve(&self, text: &str) -> String {
        let Some(symbol) = text.strip_prefix('@') else { return text.into() };
        let (name, number) = symbol.split_once('.').unwrap_or((symbol, "1"));
        self.ids[name][number.parse::<usize>().unwrap() - 1].clone()
    }

    /// A text with every id in it by its name.
    fn in_text(&self, text: &str) -> String {
        let ids = self.ids.values().flatten();
        ids.fold(text.into(), |text: String, id| text.replace(id, &self.symbol(id)))
    }

    pub fn symbol(&self, id: &str) -> String {
        for (name, ids) in &self.ids {
            match ids.iter().position(|known| known == id) {
                Some(0) => return format!("@{name}"),
                Some(index) => return format!("@{name}.{}", index + 1),
                None => {}
            }
        }
        id.into()
    }
}

/// A `ConsumerProtocolSubscription` of version 0.
pub fn subscription(topics: &[&str]) -> Vec<u8> {
    let mut bytes = vec![0, 0];
    bytes.extend((topics.len() as i32).to_be_bytes());
    for topic in topics {
        bytes.extend((topic.len() as i16).to_be_bytes());
        bytes.extend(topic.as_bytes());
    }
    bytes.extend((-1i32).to_be_bytes());
    bytes
}

/// One line: `event rebalance_started g generation=1 cause=member_joined [@a c /h]`.
pub fn event(event: &Event, names: &Names) -> String {
    let Event { group_id, timestamp_ms: _, generation_id, kind } = event;
    let (of, name) = (format!("{group_id} generation={generation_id}"), kind.name());
    let more = match kind {
        EventKind::GroupCreated => String::new(),
        EventKind::RebalanceStarted { cause, member, detail } => {
            let member = member.as_ref().map(|member| event_member(member, names));
            let detail = detail.as_ref().map(|detail| format!(" changed=\"{detail}\""));
            let (member, detail) = (member.unwrap_or_default(), detail.unwrap_or_default());
            format!(" cause={}{detail}{member}", cause.name())
        }
        EventKind::MemberJoined { member } | EventKind::MemberRejoined { member } => {
            event_member(member, names)
        }
        EventKind::HeartbeatLate { member, silent_ms, count } => {
            format!(" silent={silent_ms} count={count}{}", event_member(member, names))
        }
        EventKind::RequestRefused { api, error_code, member, count } => {
            let code = error_code.name();
            format!(" {api} {code} count={count}{}", event_member(member, names))
        }
        EventKind::JoinPhaseCompleted { members, protocol_name, last } => {
            let protocol = protocol_name.as_ref().map_or("-", |name| &***name);
            let last = last.as_ref().map(|last| event_member(last, names)).unwrap_or_default();
            format!(" members={members} protocol={protocol}{last}")
        }
        EventKind::GroupEpochBumped { cause, member } => {
            let member = member.as_ref().map(|member| event_member(member, names));
            format!(" cause={}{}", cause.name(), member.unwrap_or_default())
        }
        EventKind::TargetComputed { members, assignor } => {
            format!(" members={members} assignor={assignor}")
        }
        EventKind::RevocationAwaited { member, partitions } => {
            format!(" partitions={partitions}{}", event_member(member, names))
        }
        EventKind::MemberReconciled { member, partitions, gains } => {
            let gains = gains.as_deref().map(moves).unwrap_or_default();
            format!(" partitions={partitions}{}{gains}", event_member(member, names))
        }
        EventKind::MemberFenced { cause, member } => {
            format!(" cause={}{}", cause.name(), event_member(member, names))
        }
        EventKind::GroupMigrated { cause, member, members } => {
            let member = member.as_ref().map(|member| event_member(member, names));
            format!(" cause={} members={members}{}", cause.name(), member.unwrap_or_default())
        }
        EventKind::GroupStable { members, leader, moves: of } => {
            let leader = leader.as_ref().map(|leader| event_member(leader, names));
            let of = of.as_deref().map(moves).unwrap_or_default();
            format!(" members={members}{}{of}", leader.unwrap_or_default())
        }
        EventKind::MemberGone { cause, member, silent_ms } => {
            let silent = silent_ms.map(|silent_ms| format!(" silent={silent_ms}"));
            let silent = silent.unwrap_or_default();
            format!(" cause={}{}{silent}", cause.name(), event_member(member, names))
        }
        EventKind::JoinHeld { cause, member, for_ms } => {
            format!(" cause={} for={for_ms}{}", cause.name(), event_member(member, names))
        }
        EventKind::RemovalPutOff { cause, member, for_ms } => {
            format!(" cause={} for={for_ms}{}", cause.name(), event_member(member, names))
        }
        EventKind::GroupDeleted { cause } => format!(" cause={}", cause.name()),
        EventKind::Finding { kind, count, detail } => {
            let (kind, detail) = (kind.name(), names.in_text(detail));
            return format!("found {kind} in {of} {count}: {detail}\n");
        }
    };
    format!("event {name} {of}{more}\n")
}

fn moves(of: &Moves) -> String {
    let Moves { partitions, moved, least, unowned, unowned_ms, longest_ms, refused_commits } = of;
    format!(
        " of={partitions} moved={moved}/{least} unowned={unowned}/{unowned_ms}/{longest_ms} \
         refused={refused_commits}"
    )
}

fn event_member(member: &EventMember, names: &Names) -> String {
    let mut text = format!(" [{}", names.symbol(member.member_id()));
    if let Some(instance_id) = member.group_instance_id() {
        let _ = write!(text, "/{instance_id}");
    }
    let _ = write!(text, " {} {}", member.client_id(), member.client_host());
    if let Some(reason) = member.reason() {
        let _ = write!(text, " \"{reason}\"");
    }
    text + "]"
}

pub fn response(response: &Response, names: &Names) -> String {
    match response {
        Response::JoinGroup(joined) => {
            let mut text = kafka_name(joined.error_code);
            if joined.generation_id != -1 {
                let protocol = joined.protocol_name.as_deref().unwrap_or("-");
                let _ = write!(text, " generation={} protocol={protocol}", joined.generation_id);
                let _ = write!(text, " leader={}", quoted(&names.symbol(&joined.leader)));
            }
            let _ = write!(text, " member={}", quoted(&names.symbol(&joined.member_id)));
            if joined.skip_assignment {
                text.push_str(" skip_assignment");
            }
            for member in &joined.members {
                let _ = write!(text, " [{}", names.symbol(&member.member_id));
                if let Some(instance_id) = &member.group_instance_id {
                    let _ = write!(text, "/{instance_id}");
                }
                let _ = write!(text, " {}]", bytes(&member.metadata));
            }
            text
        }
        Response::SyncGroup(synced) => {
            let text = kafka_name(synced.error_code);
            if synced.error_code.is_error() {
                return text;
            }
            let protocol = synced.protocol_name.as_deref().unwrap_or("-");
            let protocol_type = synced.protocol_type.as_deref().unwrap_or("-");
            format!("{text} {protocol_type}/{protocol} assignment={}", bytes(&synced.assignment))
        }
        Response::Heartbeat(error_code) => kafka_name(*error_code),
        Response::LeaveGroup(left) => {
            let mut text = kafka_name(left.error_code);
            for member in &left.members {
                let _ = write!(text, " [{}", quoted(&names.symbol(&member.member_id)));
                if let Some(instance_id) = &member.group_instance_id {
                    let _ = write!(text, "/{instance_id}");
                }
                let _ = write!(text, " {}]", kafka_name(member.error_code));
            }
            text
        }
        Response::ConsumerGroupHeartbeat(answer) => consumer::beaten(answer, names),
        Response::ConsumerGroupDescribe(group) => consumer::described(group, names),
        Response::Dropped(error_code) => format!("dropped {}", kafka_name(*error_code)),
        _ => administrative(response, names),
    }
}

fn administrative(response: &Response, names: &Names) -> String {
    let mut text = String::new();
    match response {
        Response::WriteTxnMarkers(error_code) => text.push_str(&kafka_name(*error_code)),
        Response::OffsetCommit(committed) | Response::TxnOffsetCommit(committed) => {
            for topic in &committed.topics {
                for (index, error_code) in &topic.partitions {
                    let _ = write!(text, "[{}:{index} {}]", topic.name, kafka_name(*error_code));
                }
            }
        }
        Response::OffsetFetch(fetched) => {
            text.push_str(&kafka_name(fetched.error_code()));
            for topic in fetched.topics() {
                let name = topic.name();
                for at in topic.partitions {
                    let _ = write!(
                        text,
                        " [{name}:{}={} {}]",
                        at.partition_index,
                        at.committed_offset,
                        kafka_name(at.error_code)
                    );
                }
            }
        }
        Response::OffsetDelete(deleted) => {
            text.push_str(&kafka_name(deleted.error_code));
            for topic in &deleted.topics {
                for (index, error_code) in &topic.partitions {
                    let _ = write!(text, " [{}:{index} {}]", topic.name, kafka_name(*error_code));
                }
            }
        }
        Response::DescribeGroups(group) => {
            let error_code = kafka_name(group.error_code);
            let message = group.error_message.as_deref().unwrap_or("-");
            let _ = write!(text, "{error_code} {} {}", group.group_id, group.group_state);
            let _ = write!(text, " {}", quoted(&group.protocol_type));
            let _ = write!(text, "/{} message={message}", quoted(&group.protocol_data));
            for member in &group.members {
                let _ = write!(text, " [{}", names.symbol(&member.member_id));
                let metadata = bytes(&member.member_metadata);
                let assignment = bytes(&member.member_assignment);
                let _ = write!(text, " {} {metadata} {assignment}]", member.client_host);
            }
        }
        Response::DeleteGroups(deleted) => {
            for (group_id, error_code) in &deleted.results {
                let _ = write!(text, "[{} {}]", quoted(group_id), kafka_name(*error_code));
            }
        }
        Response::ListGroups(listed) => {
            text.push_str(&kafka_name(listed.error_code));
            for group in &listed.groups {
                let protocol_type = quoted(&group.protocol_type);
                let _ = write!(text, " [{} {protocol_type}", quoted(&group.group_id));
                let _ = write!(text, " {} {}]", group.group_state, group.group_type);
            }
        }
        other => panic!("{other:?} is handled elsewhere"),
    }
    text
}

/// One line for each record of a batch.
pub fn records(batch: &[u8], names: &Names) -> String {
    let mut text = String::new();
    let batches = Batches::new(batch).map(Result::unwrap);
    for (header, record) in batches.flat_map(|of| of.records().map(move |one| (of.header, one))) {
        let record = record.unwrap();
        let _ = write!(text, "append {}: ", record.offset);
        let producer = match header.producer_id {
            -1 => String::new(),
            id => format!(" producer={id}/{}", header.producer_epoch),
        };
        if header.attributes.is_control() {
            let result = TransactionResult::parse_key(record.key.unwrap()).unwrap().unwrap();
            let epoch = TransactionResult::parse_value(record.value.unwrap()).unwrap();
            let _ = writeln!(text, "{result:?}{producer} coordinator={epoch}");
            continue;
        }
        match RecordKey::parse(record.key.unwrap()).unwrap() {
            RecordKey::OffsetCommit(key) => {
                let _ = write!(text, "OffsetCommit {} {}:{}", key.group, key.topic, key.partition);
                match record.value.map(|value| (value[1], OffsetCommitValue::parse(value).unwrap()))
                {
                    Some((version, value)) => {
                        let _ = write!(text, "={} v{version}", value.offset);
                        if value.expire_timestamp != -1 {
                            let _ = write!(text, " expires={}", value.expire_timestamp);
                        }
                    }
                    None => text.push_str(" tombstone"),
                }
                text.push_str(&producer);
            }
            RecordKey::GroupMetadata(key) => {
                let _ = write!(text, "GroupMetadata {}", key.group);
                match record.value.map(|value| GroupMetadataValue::parse(value).unwrap()) {
                    Some(value) => group_value(&mut text, &value, names),
                    None => text.push_str(" tombstone"),
                }
            }
            // Groups that are not served are ended, and otherwise never written.
            RecordKey::Other(key) if record.value.is_none() => {
                let (group_type, id) = (key.group_type.name(), key.group_id);
                let _ = write!(text, "{group_type} type={} {id} tombstone", key.record_type);
            }
            RecordKey::ConsumerGroup(key) => {
                let of = ConsumerGroupRecord::parse(&key, record.value).unwrap();
                text.push_str(&consumer::record(&of, names));
            }
            other => panic!("{other:?} is not written"),
        }
        text.push('\n');
    }
    text
}

fn group_value(text: &mut String, value: &GroupMetadataValue<'_>, names: &Names) {
    let leader = value.leader.map_or("null".into(), |leader| names.symbol(leader));
    let _ = write!(text, " {}/{}", quoted(value.protocol_type), value.protocol.unwrap_or("null"));
    let _ = write!(text, " generation={} leader={leader}", value.generation);
    let _ = write!(text, " since={}", value.current_state_timestamp);
    for member in &value.members {
        let _ = write!(text, " [{}", names.symbol(member.member_id));
        if let Some(instance_id) = member.group_instance_id {
            let _ = write!(text, "/{instance_id}");
        }
        let timeouts = (member.session_timeout, member.rebalance_timeout);
        let _ = write!(text, " {}/{}", timeouts.0, timeouts.1);
        let _ = write!(text, " {} {}]", bytes(member.subscription), bytes(member.assignment));
    }
}

/// Subscriptions by their topics, other bytes as text.
fn bytes(bytes: &[u8]) -> String {
    for count in [1, 2] {
        for topics in [&["t1", "t2"][..count], &["t2"], &["t2", "t1"]] {
            if bytes == subscription(topics) {
                return format!("<{}>", topics.join(","));
            }
        }
    }
    consumer_protocol(bytes).unwrap_or_else(|| quoted(&String::from_utf8_lossy(bytes)))
}

/// Assignments by their partitions, subscriptions with more than topics by their fields.
fn consumer_protocol(bytes: &[u8]) -> Option<String> {
    if let Ok(assignment) = Assignment::decode(bytes) {
        return Some(format!("{{{}}}", partitions(&assignment.assigned_partitions)));
    }
    let subscription = Subscription::decode(bytes).ok()?;
    let mut text = format!("<{}", subscription.topics.join(","));
    if let Some(user_data) = subscription.user_data {
        let _ = write!(text, " user_data={}", String::from_utf8_lossy(user_data));
    }
    if subscription.version > 0 {
        let owned = partitions(&subscription.owned_partitions);
        let _ = write!(text, " owned={{{owned}}} since={}", subscription.generation_id);
    }
    Some(text + ">")
}

fn partitions(topics: &[TopicPartitions<'_>]) -> String {
    let topic = |(name, numbers): &TopicPartitions<'_>| {
        let numbers: Vec<String> = numbers.iter().map(i32::to_string).collect();
        format!("{name}:{}", numbers.join(","))
    };
    topics.iter().map(topic).collect::<Vec<_>>().join(" ")
}

fn quoted(text: &str) -> String {
    if text.is_empty() { "''".into() } else { text.into() }
}

/// `UNKNOWN_MEMBER_ID` for `UnknownMemberId`.
pub fn kafka_name(error_code: ErrorCode) -> String {
    let mut name = String::new();
    for letter in format!("{error_code:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_uppercase());
    }
    name
}
