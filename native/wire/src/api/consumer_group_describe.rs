//! ConsumerGroupDescribe (69, KIP-848): v1 the protocol that a member uses (KIP-1099).

use kcoord_core::ErrorCode;
use kcoord_core::response::{
    ConsumerGroupDescribeResponse, ConsumerGroupDescribedMember, DescribedTopicPartitions,
    MemberType,
};

use super::{known_word, shorten};
use crate::header::ApiKey;
use crate::reader::{DecodeErrorKind, Reader, Result};
use crate::writer::Writer;

pub use super::describe_groups::DescribeGroupsRequest;

const API: ApiKey = ApiKey::ConsumerGroupDescribe;

/// Reads the body of a request.
pub fn decode_request<'a>(
    _version: i16,
    body: &mut Reader<'a>,
) -> Result<DescribeGroupsRequest<'a>> {
    let groups = body.array("group_ids", 1, |body| body.string("group_id"))?;
    let include_authorized_operations = body.boolean("include_authorized_operations")?;
    body.tags()?;
    Ok(DescribeGroupsRequest { groups, include_authorized_operations })
}

/// `authorized_operations`: bits by `AclOperation` code, the same for all groups.
pub fn encode_response<'a>(
    out: &mut Vec<u8>,
    version: i16,
    groups: impl ExactSizeIterator<Item = &'a ConsumerGroupDescribeResponse>,
    authorized_operations: i32,
) {
    begin_groups(out, version, groups.len());
    for group in groups {
        encode_group(out, version, group, authorized_operations);
    }
    end_groups(out, version);
}

/// What comes before the groups.
pub fn begin_groups(out: &mut Vec<u8>, version: i16, count: usize) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    out.i32(0); // throttle_time_ms
    out.array_length(count);
}

/// What comes behind the groups.
pub fn end_groups(out: &mut Vec<u8>, version: i16) {
    Writer::new(out, API.spec().is_flexible(version)).tags();
}

/// Bytes that a group takes at most; not much less.
pub fn group_bytes(group: &ConsumerGroupDescribeResponse) -> usize {
    let topic = |topic: &DescribedTopicPartitions| {
        26 + topic.topic_name.len() + size_of::<i32>() * topic.partitions.len()
    };
    let topics = |topics: &[DescribedTopicPartitions]| topics.iter().map(topic).sum::<usize>();
    let member = |member: &ConsumerGroupDescribedMember| {
        let texts = [&member.member_id, &member.client_id, &member.client_host];
        let maybe = [&member.instance_id, &member.rack_id];
        let names = member.subscribed_topic_names.iter().map(|name| name.len() + 3);
        48 + texts.map(|text| text.len()).iter().sum::<usize>()
            + maybe.map(|text| text.as_deref().map_or(0, str::len)).iter().sum::<usize>()
            + names.sum::<usize>()
            + member.subscribed_topic_regex.len()
            + topics(&member.assignment)
            + topics(&member.target_assignment)
    };
    let message = group.error_message.as_deref().map_or(0, str::len);
    let texts = message + group.group_id.len() + group.assignor_name.len();
    48 + texts + group.members.iter().map(member).sum::<usize>()
}

/// One of the groups.
pub fn encode_group(
    out: &mut Vec<u8>,
    version: i16,
    group: &ConsumerGroupDescribeResponse,
    authorized_operations: i32,
) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    out.error_code(group.error_code);
    // It quotes the group's id, and may so be longer than a string can be.
    out.nullable_string(group.error_message.as_deref().map(shorten));
    out.string(&group.group_id);
    out.string(group.group_state);
    out.i32(group.group_epoch);
    out.i32(group.assignment_epoch);
    out.string(&group.assignor_name);
    out.array_length(group.members.len());
    for member in &group.members {
        encode_member(&mut out, version, member);
    }
    out.i32(authorized_operations);
    out.tags();
}

fn encode_member(out: &mut Writer<'_>, version: i16, member: &ConsumerGroupDescribedMember) {
    out.string(&member.member_id);
    out.nullable_string(member.instance_id.as_deref());
    out.nullable_string(member.rack_id.as_deref());
    out.i32(member.member_epoch);
    out.string(&member.client_id);
    out.string(&member.client_host);
    out.array_length(member.subscribed_topic_names.len());
    member.subscribed_topic_names.iter().for_each(|name| out.string(name));
    out.nullable_string(Some(&member.subscribed_topic_regex));
    for topics in [&member.assignment, &member.target_assignment] {
        out.array_length(topics.len());
        for topic in topics {
            out.uuid(topic.topic_id);
            out.string(&topic.topic_name);
            out.array_length(topic.partitions.len());
            topic.partitions.iter().for_each(|number| out.i32(*number));
            out.tags();
        }
        out.tags();
    }
    if version >= 1 {
        out.i8(member.member_type as i8);
    }
    out.tags();
}

/// One group that cannot be served: its id and the code, nothing else.
pub fn error_response(group_id: &str, error_code: ErrorCode) -> ConsumerGroupDescribeResponse {
    ConsumerGroupDescribeResponse::refused(group_id, error_code.into())
}

/// Appends the body of a request, as clients do.
pub fn encode_request(out: &mut Vec<u8>, version: i16, request: &DescribeGroupsRequest<'_>) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    out.array_length(request.groups.len());
    for group_id in &request.groups {
        out.string(group_id);
    }
    out.boolean(request.include_authorized_operations);
    out.tags();
}

/// The groups, and the first one's authorized operations.
pub fn decode_response(
    version: i16,
    body: &mut Reader<'_>,
) -> Result<(Vec<ConsumerGroupDescribeResponse>, Option<i32>)> {
    body.i32("throttle_time_ms")?;
    let mut authorized_operations = None;
    let groups = body.array("groups", 20, |body| {
        let group = ConsumerGroupDescribeResponse {
            error_code: body.error_code("error_code")?,
            error_message: body.nullable_string("error_message")?.map(Box::from),
            group_id: body.string("group_id")?.into(),
            group_state: known_word(body, "group_state")?,
            group_epoch: body.i32("group_epoch")?,
            assignment_epoch: body.i32("assignment_epoch")?,
            assignor_name: body.string("assignor_name")?.into(),
            members: body.array("members", 18, |body| decode_member(version, body))?,
        };
        let operations = body.i32("authorized_operations")?;
        authorized_operations.get_or_insert(operations);
        body.tags()?;
        Ok(group)
    })?;
    body.tags()?;
    Ok((groups, authorized_operations))
}

fn decode_member(version: i16, body: &mut Reader<'_>) -> Result<ConsumerGroupDescribedMember> {
    let member = ConsumerGroupDescribedMember {
        member_id: body.string("member_id")?.into(),
        instance_id: body.nullable_string("instance_id")?.map(Box::from),
        rack_id: body.nullable_string("rack_id")?.map(Box::from),
        member_epoch: body.i32("member_epoch")?,
        client_id: body.string("client_id")?.into(),
        client_host: body.string("client_host")?.into(),
        subscribed_topic_names: body
            .array("subscribed_topic_names", 1, |body| body.string("topic_name").map(Box::from))?,
        subscribed_topic_regex: {
            let regex = body.nullable_string("subscribed_topic_regex")?;
            regex.unwrap_or_default().into()
        },
        assignment: decode_assignment(body)?,
        target_assignment: decode_assignment(body)?,
        member_type: match version {
            ..1 => MemberType::Consumer,
            _ => match body.i8("member_type")? {
                0 => MemberType::Classic,
                1 => MemberType::Consumer,
                _ => return Err(body.error("member_type", DecodeErrorKind::UnknownValue)),
            },
        },
    };
    body.tags()?;
    Ok(member)
}

fn decode_assignment(body: &mut Reader<'_>) -> Result<Vec<DescribedTopicPartitions>> {
    let topics = body.array("topic_partitions", 19, |body| {
        let topic = DescribedTopicPartitions {
            topic_id: body.uuid("topic_id")?,
            topic_name: body.string("topic_name")?.into(),
            partitions: body.array("partitions", 4, |body| body.i32("partition"))?,
        };
        body.tags()?;
        Ok(topic)
    })?;
    body.tags()?;
    Ok(topics)
}
