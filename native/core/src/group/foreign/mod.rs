//! Groups of protocols that are not served here: their records are kept as they are, and what is
//! asked of them is answered as Kafka would, as far as the keys of the records tell (states section
//! 4, "a group of another type"; offsets sections 2.2 and 6).
//!
//! Values are not interpreted. A snapshot has all of them, and a deletion ends all of them.

mod records;

use std::collections::BTreeMap;

use super::text::GroupId;
use crate::error::ErrorCode;
use crate::offset::expiration::{ConsumedTopics, ExpirationBase};
use crate::record::GroupType;
use crate::request::{OffsetCommitRequest, OffsetFetchRequest};
use crate::snapshot;

/// What Kafka's clients call a state that they do not know.
pub const UNKNOWN_STATE: &str = "Unknown";

/// Snapshots once said of a group only that it is there: a value that ends behind its version.
const PLACEHOLDER_BYTES: usize = size_of::<i16>();

/// Key and value, as the log has them.
pub type KeptRecords = BTreeMap<Box<[u8]>, Box<[u8]>>;

#[derive(Debug)]
pub struct ForeignGroup {
    group_type: GroupType,
    /// The last record of each key. Keys begin with their type, then the group.
    records: KeptRecords,
}

impl ForeignGroup {
    pub fn new(group_type: GroupType) -> Self {
        ForeignGroup { group_type, records: BTreeMap::new() }
    }

    pub fn group_type(&self) -> GroupType {
        self.group_type
    }

    /// Whether it is known that it has no members.
    pub fn is_empty(&self) -> bool {
        let has = |record_type: i16| {
            let found = self.records.range(Box::from(record_type.to_be_bytes())..).next();
            found.filter(|(key, _)| key.starts_with(&record_type.to_be_bytes()))
        };
        let group_record = has(self.group_type.group_record_type());
        let is_known = group_record.is_some_and(|(_, value)| value.len() > PLACEHOLDER_BYTES);
        is_known && self.group_type.member_record_type().and_then(has).is_none()
    }

    /// Of other groups with members it is not known without reading what they hold.
    pub fn state_name(&self) -> &'static str {
        match self.group_type {
            _ if self.is_empty() => "Empty",
            GroupType::Share => "Stable",
            _ => UNKNOWN_STATE,
        }
    }

    /// Share groups stay until they are deleted.
    pub fn expires(&self) -> bool {
        self.group_type != GroupType::Share
    }

    pub fn gives_way_to_classic(&self) -> bool {
        self.group_type != GroupType::Share && self.is_empty()
    }

    /// Its members are not known here, so no caller is one.
    pub fn admit_commit(&self, request: &OffsetCommitRequest<'_>) -> Result<(), ErrorCode> {
        match self.group_type {
            GroupType::Share => Err(ErrorCode::GroupIdNotFound),
            _ if request.generation_id_or_member_epoch < 0 && self.is_empty() => Ok(()),
            _ => Err(ErrorCode::UnknownMemberId),
        }
    }

    pub fn admit_transactional_commit(
        &self,
        request: &OffsetCommitRequest<'_>,
    ) -> Result<(), ErrorCode> {
        match self.group_type {
            GroupType::Streams if request.names_nobody() => Ok(()),
            _ => self.admit_commit(request),
        }
    }

    /// A share group has no offsets, which is no error.
    pub fn admit_fetch(&self, request: &OffsetFetchRequest<'_>) -> Result<(), ErrorCode> {
        let names_member = request.member_id.is_some() || request.member_epoch >= 0;
        match self.group_type {
            GroupType::Share => Ok(()),
            _ if names_member => Err(ErrorCode::UnknownMemberId),
            _ => Ok(()),
        }
    }

    pub fn admit_offset_delete(&self) -> Result<(), ErrorCode> {
        match self.group_type {
            GroupType::Share => Err(ErrorCode::GroupIdNotFound),
            _ => Ok(()),
        }
    }

    /// What members subscribe to is not known: nothing of it may go.
    pub fn consumed_topics(&self) -> ConsumedTopics {
        if self.is_empty() { ConsumedTopics::Nothing } else { ConsumedTopics::Everything }
    }

    pub fn expiration(&self) -> (ExpirationBase, ConsumedTopics) {
        let base = match self.group_type {
            GroupType::Share => ExpirationBase::Never,
            _ if self.is_empty() => ExpirationBase::CommitTimestamp,
            _ => ExpirationBase::Never,
        };
        (base, self.consumed_topics())
    }

    pub fn write(&self, out: &mut snapshot::Writer) {
        self.records.iter().for_each(|(key, value)| out.kept(key, value));
    }

    pub fn assert_consistent(&self, group_id: &GroupId) {
        assert_ne!(self.group_type, GroupType::Classic);
        let id = group_id.as_bytes();
        let names_it = |key: &[u8]| key.get(4..).is_some_and(|rest| rest.starts_with(id));
        assert!(self.records.keys().all(|key| names_it(key)), "{group_id:?} keeps its own records");
    }
}
