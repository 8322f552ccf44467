//! Requests that name many groups or members, read one name after the other: their lists are never
//! made. A body is checked to its last byte first, as every body is.

use kcoord_core::limits::MAX_ENTRIES_PER_REQUEST;
use kcoord_core::request::{LeaveGroupMember, OffsetFetchRequest};
use kcoord_core::response::{ConsumerGroupDescribeResponse, DescribeGroupResponse};

use super::describing::{DescribedGroup, decode_end};
use super::{leave_group, offset_fetch};
use crate::header::{ApiKey, ApiSpec};
use crate::reader::{DecodeErrorKind, Reader, Result};

/// Elements of a list that were not read yet: where in the frame the next one begins, and how many
/// there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    at: u32,
    count: u32,
}

/// What a request says besides its list, and where that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Long<'a> {
    /// DescribeGroups or ConsumerGroupDescribe.
    Describe {
        /// To be read by [`Unread::next_name`].
        groups: Unread,
        /// Asks for operations that the caller may do.
        include_authorized_operations: bool,
    },
    /// DeleteGroups.
    Delete {
        /// To be read by [`Unread::next_name`].
        groups: Unread,
    },
    /// LeaveGroup.
    Leave {
        /// That they are members of.
        group_id: &'a str,
        /// To be read by [`Unread::next_member`].
        members: Unread,
    },
    /// OffsetFetch.
    Fetch {
        /// To be read by [`Unread::next_fetch`].
        groups: Unread,
        /// Of all groups.
        require_stable: bool,
        /// Groups, topics and partitions.
        entries: usize,
    },
}

impl Long<'_> {
    /// How much it names: groups, members, topics and partitions.
    pub fn entries(&self) -> usize {
        match self {
            Long::Describe { groups, .. } | Long::Delete { groups } => groups.count(),
            Long::Leave { members, .. } => members.count(),
            Long::Fetch { entries, .. } => *entries,
        }
    }
}

/// Checks the body of a request as `decode_request` does, without keeping what it reads; `None`: an
/// API without such a list. `body` is of the whole frame.
///
/// # Errors
/// The body is cut short or malformed.
pub fn check<'a>(api: ApiKey, version: i16, body: &mut Reader<'a>) -> Result<Option<Long<'a>>> {
    let mut left = MAX_ENTRIES_PER_REQUEST;
    let long = match api {
        ApiKey::DescribeGroups => describe::<DescribeGroupResponse>(version, body, &mut left)?,
        ApiKey::ConsumerGroupDescribe => {
            describe::<ConsumerGroupDescribeResponse>(version, body, &mut left)?
        }
        ApiKey::DeleteGroups => {
            Long::Delete { groups: list(body, "groups_names", 1, &mut left, name)? }
        }
        ApiKey::LeaveGroup if version >= 3 => Long::Leave {
            group_id: body.string("group_id")?,
            members: list(body, "members", 3, &mut left, |body, _| {
                leave_group::decode_member(version, body).map(drop)
            })?,
        },
        ApiKey::OffsetFetch => {
            let group = |body: &mut Reader<'a>, left: &mut usize| {
                offset_fetch::check_element(version, body, left)
            };
            let groups = if version < 8 {
                let groups = Unread { at: body.position() as u32, count: 1 };
                group(body, &mut left)?;
                groups
            } else {
                list(body, "groups", 3, &mut left, group)?
            };
            let require_stable = version >= 7 && body.boolean("require_stable")?;
            let entries = MAX_ENTRIES_PER_REQUEST - left + usize::from(version < 8);
            Long::Fetch { groups, require_stable, entries }
        }
        _ => return Ok(None),
    };
    body.tags()?;
    Ok(Some(long))
}

fn describe<'a, G: DescribedGroup>(
    version: i16,
    body: &mut Reader<'a>,
    left: &mut usize,
) -> Result<Long<'a>> {
    let groups = list(body, G::ASKED, 1, left, name)?;
    let include_authorized_operations = decode_end::<G>(version, body)?;
    Ok(Long::Describe { groups, include_authorized_operations })
}

fn name(body: &mut Reader<'_>, _: &mut usize) -> Result<()> {
    body.string("group_id").map(drop)
}

fn list<'a>(
    body: &mut Reader<'a>,
    field: &'static str,
    minimum: usize,
    left: &mut usize,
    mut element: impl FnMut(&mut Reader<'a>, &mut usize) -> Result<()>,
) -> Result<Unread> {
    let Some(count) = body.counted_length(field, minimum, left)? else {
        return Err(body.error(field, DecodeErrorKind::Null));
    };
    let unread = Unread { at: body.position() as u32, count: count as u32 };
    for _ in 0..count {
        element(body, left)?;
    }
    Ok(unread)
}

impl Unread {
    /// How many.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// The next of a list of groups.
    ///
    /// # Panics
    /// If `frame` is not the one that was checked.
    pub fn next_name<'a>(
        &mut self,
        spec: &ApiSpec,
        version: i16,
        frame: &'a [u8],
    ) -> Option<&'a str> {
        self.next(spec, version, frame, |body| body.string("group_id"))
    }

    /// The next member of a LeaveGroup. Panics as [`next_name`](Self::next_name).
    pub fn next_member<'a>(
        &mut self,
        version: i16,
        frame: &'a [u8],
    ) -> Option<LeaveGroupMember<'a>> {
        let spec = ApiKey::LeaveGroup.spec();
        self.next(spec, version, frame, |body| leave_group::decode_member(version, body))
    }

    /// The next group of an OffsetFetch. Panics as [`next_name`](Self::next_name).
    pub fn next_fetch<'a>(
        &mut self,
        version: i16,
        frame: &'a [u8],
    ) -> Option<OffsetFetchRequest<'a>> {
        let spec = ApiKey::OffsetFetch.spec();
        let read = |body: &mut Reader<'a>| {
            offset_fetch::decode_element(version, body, &mut MAX_ENTRIES_PER_REQUEST.clone())
        };
        self.next(spec, version, frame, read)
    }

    fn next<'a, T>(
        &mut self,
        spec: &ApiSpec,
        version: i16,
        frame: &'a [u8],
        read: impl FnOnce(&mut Reader<'a>) -> Result<T>,
    ) -> Option<T> {
        self.count = self.count.checked_sub(1)?;
        let mut body = Reader::new(&frame[self.at as usize..], spec.is_flexible(version));
        let element = read(&mut body).expect("it was checked");
        self.at += body.position() as u32;
        Some(element)
    }
}
