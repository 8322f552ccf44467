//! What DescribeGroups and ConsumerGroupDescribe have in common: groups are named, and each is
//! described by itself.

use kcoord_core::ErrorCode;
use kcoord_core::limits::MAX_ENTRIES_PER_REQUEST;

use crate::header::ApiKey;
use crate::reader::{Reader, Result};
use crate::writer::Writer;

/// `authorized_operations` of a client that did not ask for them.
pub const OPERATIONS_OMITTED: i32 = i32::MIN;

/// What a broker without an authorizer answers for a group: READ, DELETE, DESCRIBE,
/// DESCRIBE_CONFIGS and ALTER_CONFIGS, as bits by `AclOperation` code.
pub const GROUP_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;

/// The host splits it: its groups may live in several shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DescribeGroupsRequest<'a> {
    /// The groups.
    pub groups: Vec<&'a str>,
    /// Asks for operations that the caller may do; there is nothing to say of them.
    pub include_authorized_operations: bool,
}

/// Groups as they are described.
#[derive(Clone, Debug, PartialEq)]
pub struct Described<G> {
    /// In the order of the request.
    pub groups: Vec<G>,
    /// Bits by `AclOperation` code, the same for all groups.
    pub authorized_operations: i32,
}

/// One group of the answer.
pub trait DescribedGroup: Sized {
    /// The API whose answer it is part of.
    const API: ApiKey;
    /// What the request calls the groups.
    const ASKED: &'static str;
    /// First version whose answer begins with a throttle time.
    const THROTTLE_FROM: i16;
    /// First version in which operations are asked for and told.
    const OPERATIONS_FROM: i16;
    /// What a group takes at least, in bytes.
    const LEAST_BYTES: usize;
    /// Steps in which a member is encoded.
    const STEPS: usize;

    /// Bytes that it takes at most; not much less.
    fn bytes(&self) -> usize;
    /// Why it is not described.
    fn error_code(&self) -> ErrorCode;
    /// One that cannot be served: its id and the code, nothing else.
    fn refused(group_id: &str, error_code: ErrorCode) -> Self;
    /// What comes before its members, with their number.
    fn begin(&self, out: &mut Writer<'_>, version: i16);
    /// How many members it has.
    fn member_count(&self) -> usize;
    /// A step of one of its members, up to the bytes that it shares with the group's state.
    fn encode_step(&self, member: usize, step: usize, out: &mut Writer<'_>, version: i16);
    /// The bytes that all steps of a member and what stands behind them take.
    fn member_bytes(&self, member: usize, version: i16) -> usize {
        encoded_member_bytes(self, member, version)
    }
    /// The bytes that stand behind that step, as they are sent.
    fn shared(&self, member: usize, step: usize) -> &[u8];
    /// All but its operations.
    ///
    /// # Errors
    /// It is cut short or malformed.
    fn decode(version: i16, body: &mut Reader<'_>) -> Result<Self>;
}

pub(super) fn decode_request<'a, G: DescribedGroup>(
    version: i16,
    body: &mut Reader<'a>,
) -> Result<DescribeGroupsRequest<'a>> {
    let mut left = MAX_ENTRIES_PER_REQUEST;
    let groups = body.counted_array(G::ASKED, 1, &mut left, |body, _| body.string("group_id"))?;
    let include_authorized_operations = decode_end::<G>(version, body)?;
    body.tags()?;
    Ok(DescribeGroupsRequest { groups, include_authorized_operations })
}

/// What stands behind the groups: whether operations are asked for.
pub(super) fn decode_end<G: DescribedGroup>(version: i16, body: &mut Reader<'_>) -> Result<bool> {
    Ok(version >= G::OPERATIONS_FROM && body.boolean("include_authorized_operations")?)
}

pub(super) fn encode_request<G: DescribedGroup>(
    out: &mut Vec<u8>,
    version: i16,
    request: &DescribeGroupsRequest<'_>,
) {
    let mut out = Writer::new(out, G::API.spec().is_flexible(version));
    out.array_length(request.groups.len());
    for group_id in &request.groups {
        out.string(group_id);
    }
    if version >= G::OPERATIONS_FROM {
        out.boolean(request.include_authorized_operations);
    }
    out.tags();
}

/// Appends the body of a response.
pub fn encode_response<G: DescribedGroup>(
    out: &mut Vec<u8>,
    version: i16,
    response: &Described<G>,
) {
    begin_groups::<G>(out, version, response.groups.len());
    for group in &response.groups {
        encode_group(out, version, group, response.authorized_operations);
    }
    end_groups::<G>(out, version);
}

/// What comes before the groups.
pub fn begin_groups<G: DescribedGroup>(out: &mut Vec<u8>, version: i16, count: usize) {
    let mut out = Writer::new(out, G::API.spec().is_flexible(version));
    if version >= G::THROTTLE_FROM {
        out.i32(0); // throttle_time_ms
    }
    out.array_length(count);
}

/// What comes behind the groups.
pub fn end_groups<G: DescribedGroup>(out: &mut Vec<u8>, version: i16) {
    Writer::new(out, G::API.spec().is_flexible(version)).tags();
}

/// One of the groups.
pub fn encode_group<G: DescribedGroup>(
    out: &mut Vec<u8>,
    version: i16,
    group: &G,
    authorized_operations: i32,
) {
    let is_flexible = G::API.spec().is_flexible(version);
    group.begin(&mut Writer::new(out, is_flexible), version);
    for member in 0..group.member_count() {
        for step in 0..G::STEPS {
            group.encode_step(member, step, &mut Writer::new(out, is_flexible), version);
            out.extend_from_slice(group.shared(member, step));
        }
    }
    encode_operations::<G>(&mut Writer::new(out, is_flexible), version, authorized_operations);
}

/// The bytes that a member takes, found by encoding it.
pub(super) fn encoded_member_bytes<G: DescribedGroup>(
    group: &G,
    member: usize,
    version: i16,
) -> usize {
    let (mut out, mut shared) = (Vec::with_capacity(256), 0);
    for step in 0..G::STEPS {
        let is_flexible = G::API.spec().is_flexible(version);
        group.encode_step(member, step, &mut Writer::new(&mut out, is_flexible), version);
        shared += group.shared(member, step).len();
    }
    out.len() + shared
}

/// The end of a group.
pub(super) fn encode_operations<G: DescribedGroup>(
    out: &mut Writer<'_>,
    version: i16,
    authorized_operations: i32,
) {
    if version >= G::OPERATIONS_FROM {
        out.i32(authorized_operations);
    }
    out.tags();
}

/// The first group's authorized operations stand for those of all.
pub(super) fn decode_response<G: DescribedGroup>(
    version: i16,
    body: &mut Reader<'_>,
) -> Result<Described<G>> {
    if version >= G::THROTTLE_FROM {
        body.i32("throttle_time_ms")?;
    }
    let mut authorized_operations = None;
    let groups = body.array("groups", G::LEAST_BYTES, |body| {
        let group = G::decode(version, body)?;
        if version >= G::OPERATIONS_FROM {
            let operations = body.i32("authorized_operations")?;
            authorized_operations.get_or_insert(operations);
        }
        body.tags()?;
        Ok(group)
    })?;
    body.tags()?;
    let authorized_operations = authorized_operations.unwrap_or(OPERATIONS_OMITTED);
    Ok(Described { groups, authorized_operations })
}

pub(super) fn error_response<G: DescribedGroup>(
    request: &DescribeGroupsRequest<'_>,
    error_code: ErrorCode,
) -> Described<G> {
    let groups = request.groups.iter().map(|group_id| G::refused(group_id, error_code)).collect();
    Described { groups, authorized_operations: OPERATIONS_OMITTED }
}

pub(super) fn each_code<G: DescribedGroup>(response: &Described<G>, found: impl FnMut(ErrorCode)) {
    response.groups.iter().map(G::error_code).for_each(found);
}
