//! ConsumerGroupDescribe (69): gives a consumer group's members, epochs and assignments (KIP-848).
//! v1 the protocol that a member uses (KIP-1099).

use kcoord_core::ErrorCode;
use kcoord_core::response::{
    ConsumerGroupDescribeResponse, ConsumerGroupDescribedMember, DescribedTopicPartitions,
    MemberType,
};

use super::describing::{self, DescribeGroupsRequest, Described, DescribedGroup};
use super::{known_word, shorten};
use crate::header::ApiKey;
use crate::reader::{DecodeErrorKind, Reader, Result};
use crate::writer::{Writer, varint_bytes};

pub(super) use super::describing::{decode_response, each_code, encode_response, error_response};

/// What a request says.
pub type Request<'a> = DescribeGroupsRequest<'a>;
/// What a response says.
pub type Response = Described<ConsumerGroupDescribeResponse>;

pub(super) fn decode_request<'a>(version: i16, body: &mut Reader<'a>) -> Result<Request<'a>> {
    describing::decode_request::<ConsumerGroupDescribeResponse>(version, body)
}

pub(super) fn encode_request(out: &mut Vec<u8>, version: i16, request: &Request<'_>) {
    describing::encode_request::<ConsumerGroupDescribeResponse>(out, version, request);
}

impl DescribedGroup for ConsumerGroupDescribeResponse {
    const API: ApiKey = ApiKey::ConsumerGroupDescribe;
    const ASKED: &'static str = "group_ids";
    const THROTTLE_FROM: i16 = 0;
    const OPERATIONS_FROM: i16 = 0;
    const LEAST_BYTES: usize = 20;
    const STEPS: usize = 1;

    fn bytes(&self) -> usize {
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
        let message = self.error_message.as_deref().map_or(0, str::len);
        let texts = message + self.group_id.len() + self.assignor_name.len();
        48 + texts + self.members.iter().map(member).sum::<usize>()
    }

    fn error_code(&self) -> ErrorCode {
        self.error_code
    }

    fn refused(group_id: &str, error_code: ErrorCode) -> Self {
        ConsumerGroupDescribeResponse::refused(group_id, error_code.into())
    }

    fn begin(&self, out: &mut Writer<'_>, _version: i16) {
        out.error_code(self.error_code);
        // It quotes the group's id, and may so be longer than a string can be.
        out.nullable_string(self.error_message.as_deref().map(shorten));
        out.string(&self.group_id);
        out.string(self.group_state);
        out.i32(self.group_epoch);
        out.i32(self.assignment_epoch);
        out.string(&self.assignor_name);
        out.array_length(self.members.len());
    }

    fn member_count(&self) -> usize {
        self.members.len()
    }

    fn encode_step(&self, member: usize, _step: usize, out: &mut Writer<'_>, version: i16) {
        encode_member(out, version, &self.members[member]);
    }

    fn member_bytes(&self, member: usize, version: i16) -> usize {
        let member = &self.members[member];
        let topic = |topic: &DescribedTopicPartitions| {
            let numbers = size_of::<i32>() * topic.partitions.len();
            16 + string_bytes(&topic.topic_name) + compact(topic.partitions.len()) + numbers + 1
        };
        let topics = |topics: &[DescribedTopicPartitions]| {
            compact(topics.len()) + topics.iter().map(topic).sum::<usize>() + 1
        };
        let maybe = |text: &Option<Box<str>>| text.as_deref().map_or(1, string_bytes);
        let names = &member.subscribed_topic_names;
        string_bytes(&member.member_id)
            + maybe(&member.instance_id)
            + maybe(&member.rack_id)
            + size_of::<i32>()
            + string_bytes(&member.client_id)
            + string_bytes(&member.client_host)
            + compact(names.len())
            + names.iter().map(|name| string_bytes(name)).sum::<usize>()
            + string_bytes(&member.subscribed_topic_regex)
            + topics(&member.assignment)
            + topics(&member.target_assignment)
            + usize::from(version >= 1)
            + 1
    }

    fn shared(&self, _member: usize, _step: usize) -> &[u8] {
        &[]
    }

    fn decode(version: i16, body: &mut Reader<'_>) -> Result<Self> {
        Ok(ConsumerGroupDescribeResponse {
            error_code: body.error_code("error_code")?,
            error_message: body.nullable_string("error_message")?.map(Box::from),
            group_id: body.string("group_id")?.into(),
            group_state: known_word(body, "group_state")?,
            group_epoch: body.i32("group_epoch")?,
            assignment_epoch: body.i32("assignment_epoch")?,
            assignor_name: body.string("assignor_name")?.into(),
            members: body.array("members", 18, |body| decode_member(version, body))?,
        })
    }
}

/// Of a length, as flexible versions write it: this API has no others.
fn compact(length: usize) -> usize {
    varint_bytes(length + 1)
}

fn string_bytes(text: &str) -> usize {
    compact(text.len()) + text.len()
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

fn decode_member(version: i16, body: &mut Reader<'_>) -> Result<ConsumerGroupDescribedMember> {
    let member = ConsumerGroupDescribedMember {
        member_id: body.string("member_id")?.into(),
        instance_id: body.nullable_string("instance_id")?.map(Box::from),
        rack_id: body.nullable_string("rack_id")?.map(Box::from),
        member_epoch: body.i32("member_epoch")?,
        client_id: body.string("client_id")?.into(),
        client_host: body.string("client_host")?.into(),
        subscribed_topic_names: body
            .array("subscribed_topic_names", 1, |body| body.string("topic_name").map(Box::from))?
            .into(),
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
