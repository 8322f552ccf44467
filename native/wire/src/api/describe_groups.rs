//! DescribeGroups (15): gives a group's state and members. v3 authorized operations, v4 instance
//! id, v5 flexible, v6 error message.

use kcoord_core::ErrorCode;
use kcoord_core::response::{DescribeGroupResponse, DescribedGroupMember};

use super::describing::{self, DescribeGroupsRequest, Described, DescribedGroup};
use super::{known_word, shorten};
use crate::header::ApiKey;
use crate::reader::{Reader, Result};
use crate::writer::Writer;

pub(super) use super::describing::{decode_response, each_code, encode_response, error_response};

/// What a request says.
pub type Request<'a> = DescribeGroupsRequest<'a>;
/// What a response says.
pub type Response = Described<DescribeGroupResponse>;

pub(super) fn decode_request<'a>(version: i16, body: &mut Reader<'a>) -> Result<Request<'a>> {
    describing::decode_request::<DescribeGroupResponse>(version, body)
}

pub(super) fn encode_request(out: &mut Vec<u8>, version: i16, request: &Request<'_>) {
    describing::encode_request::<DescribeGroupResponse>(out, version, request);
}

impl DescribedGroup for DescribeGroupResponse {
    const API: ApiKey = ApiKey::DescribeGroups;
    const ASKED: &'static str = "groups";
    const THROTTLE_FROM: i16 = 1;
    const OPERATIONS_FROM: i16 = 3;
    const LEAST_BYTES: usize = 12;
    const STEPS: usize = 3;

    fn bytes(&self) -> usize {
        let member = |member: &DescribedGroupMember| {
            let texts = [&member.member_id, &member.client_id, &member.client_host];
            let instance_id = member.group_instance_id.as_deref().map_or(0, str::len);
            let bytes = member.member_metadata.len() + member.member_assignment.len();
            23 + texts.map(|text| text.len()).iter().sum::<usize>() + instance_id + bytes
        };
        let texts = [&self.group_id, &self.protocol_type, &self.protocol_data];
        let message = self.error_message.as_deref().map_or(0, str::len);
        let fields = texts.map(|text| text.len()).iter().sum::<usize>() + self.group_state.len();
        32 + message + fields + self.members.iter().map(member).sum::<usize>()
    }

    fn error_code(&self) -> ErrorCode {
        self.error_code
    }

    fn refused(group_id: &str, error_code: ErrorCode) -> Self {
        DescribeGroupResponse::refused(group_id, error_code)
    }

    fn begin(&self, out: &mut Writer<'_>, version: i16) {
        out.error_code(self.error_code);
        if version >= 6 {
            // It quotes the group's id, and may so be longer than a string can be.
            out.nullable_string(self.error_message.as_deref().map(shorten));
        }
        out.string(&self.group_id);
        out.string(self.group_state);
        out.string(&self.protocol_type);
        out.string(&self.protocol_data);
        out.array_length(self.members.len());
    }

    fn member_count(&self) -> usize {
        self.members.len()
    }

    fn encode_step(&self, member: usize, step: usize, out: &mut Writer<'_>, version: i16) {
        let member = &self.members[member];
        match step {
            0 => {
                out.string(&member.member_id);
                if version >= 4 {
                    out.nullable_string(member.group_instance_id.as_deref());
                }
                out.string(&member.client_id);
                out.string(&member.client_host);
                out.array_length(member.member_metadata.len());
            }
            1 => out.array_length(member.member_assignment.len()),
            _ => out.tags(),
        }
    }

    fn shared(&self, member: usize, step: usize) -> &[u8] {
        let member = &self.members[member];
        match step {
            0 => &member.member_metadata,
            1 => &member.member_assignment,
            _ => &[],
        }
    }

    fn decode(version: i16, body: &mut Reader<'_>) -> Result<Self> {
        Ok(DescribeGroupResponse {
            error_code: body.error_code("error_code")?,
            error_message: match version {
                ..6 => None,
                _ => body.nullable_string("error_message")?.map(Box::from),
            },
            group_id: body.string("group_id")?.into(),
            group_state: known_word(body, "group_state")?,
            protocol_type: body.string("protocol_type")?.into(),
            protocol_data: body.string("protocol_data")?.into(),
            members: body.array("members", 6, |body| {
                let member = DescribedGroupMember {
                    member_id: body.string("member_id")?.into(),
                    group_instance_id: match version {
                        ..4 => None,
                        _ => body.nullable_string("group_instance_id")?.map(Box::from),
                    },
                    client_id: body.string("client_id")?.into(),
                    client_host: body.string("client_host")?.into(),
                    member_metadata: body.bytes("member_metadata")?.into(),
                    member_assignment: body.bytes("member_assignment")?.into(),
                };
                body.tags()?;
                Ok(member)
            })?,
        })
    }
}
