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
    let Some((checking, group_id)) = Checking::begin(api, version, body)? else {
        return Ok(None);
    };
    checking.at_once(body, group_id).map(Some)
}

/// What [`check`] does, some elements at a time.
#[derive(Clone, Debug)]
pub struct Checking {
    api: ApiKey,
    version: i16,
    list: Unread,
    /// Elements of the list that are to come.
    elements: usize,
    /// Topics that are to come of a group of an OffsetFetch.
    topics: usize,
    /// Elements of all lists that may still come.
    left: usize,
    /// Bytes of the frame that were read.
    at: usize,
}

impl Checking {
    /// Reads what comes before the list: with it the group whose members a LeaveGroup names.
    /// `None`: an API without such a list. `body` is of the whole frame.
    ///
    /// # Errors
    /// As [`check`].
    pub fn begin<'a>(
        api: ApiKey,
        version: i16,
        body: &mut Reader<'a>,
    ) -> Result<Option<(Self, &'a str)>> {
        let (mut left, mut group_id) = (MAX_ENTRIES_PER_REQUEST, "");
        let list = match api {
            ApiKey::DescribeGroups => begin_list(body, DescribeGroupResponse::ASKED, 1, &mut left)?,
            ApiKey::ConsumerGroupDescribe => {
                begin_list(body, ConsumerGroupDescribeResponse::ASKED, 1, &mut left)?
            }
            ApiKey::DeleteGroups => begin_list(body, "groups_names", 1, &mut left)?,
            ApiKey::LeaveGroup if version >= 3 => {
                group_id = body.string("group_id")?;
                begin_list(body, "members", 3, &mut left)?
            }
            ApiKey::OffsetFetch if version >= 8 => begin_list(body, "groups", 3, &mut left)?,
            ApiKey::OffsetFetch => Unread { at: body.position() as u32, count: 1 },
            _ => return Ok(None),
        };
        let (elements, at) = (list.count(), body.position());
        let checking = Checking { api, version, list, elements, topics: 0, left, at };
        Ok(Some((checking, group_id)))
    }

    /// All of it. `group_id` is what [`begin`](Self::begin) said.
    ///
    /// # Errors
    /// As [`check`].
    pub fn at_once<'a>(mut self, body: &mut Reader<'a>, group_id: &'a str) -> Result<Long<'a>> {
        self.go_on(body, usize::MAX, usize::MAX)?;
        self.end(body, group_id)
    }

    /// Elements of the list.
    pub fn count(&self) -> usize {
        self.list.count()
    }

    /// Where it goes on in the frame that it began in.
    ///
    /// # Panics
    /// If the frame is another one.
    pub fn body<'a>(&self, frame: &'a [u8]) -> Reader<'a> {
        let mut body = Reader::new(frame, self.api.spec().is_flexible(self.version));
        body.skip("frame", self.at).expect("it was read before");
        body
    }

    /// Checks up to `most` elements and little more than `most_bytes`; how many elements that were.
    /// Topics of an OffsetFetch count too.
    ///
    /// # Errors
    /// As [`check`].
    pub fn go_on(
        &mut self,
        body: &mut Reader<'_>,
        most: usize,
        most_bytes: usize,
    ) -> Result<usize> {
        let until = self.at.saturating_add(most_bytes);
        let mut checked = 0;
        while !self.is_whole() && checked < most && body.position() < until {
            match self.api {
                ApiKey::OffsetFetch => self.go_on_fetching(body)?,
                ApiKey::LeaveGroup => {
                    leave_group::decode_member(self.version, body)?;
                    self.elements -= 1;
                }
                _ => {
                    body.string("group_id")?;
                    self.elements -= 1;
                }
            }
            checked += 1;
        }
        self.at = body.position();
        Ok(checked)
    }

    /// Checks the beginning of a group with its end if it names no topic, or a topic.
    fn go_on_fetching(&mut self, body: &mut Reader<'_>) -> Result<()> {
        if self.topics == 0 {
            self.topics = offset_fetch::check_group(self.version, body, &mut self.left)?;
        } else {
            offset_fetch::check_topic(self.version, body, &mut self.left)?;
            self.topics -= 1;
        }
        if self.topics == 0 {
            offset_fetch::decode_group_end(self.version, body)?;
            self.elements -= 1;
        }
        Ok(())
    }

    /// Whether all elements are checked.
    pub fn is_whole(&self) -> bool {
        self.elements == 0
    }

    /// Reads what comes behind the list, to the end of the body. `group_id` is what
    /// [`begin`](Self::begin) said.
    ///
    /// # Errors
    /// As [`check`].
    pub fn end<'a>(&self, body: &mut Reader<'a>, group_id: &'a str) -> Result<Long<'a>> {
        debug_assert!(self.is_whole());
        let (version, list) = (self.version, self.list);
        let long = match self.api {
            ApiKey::DescribeGroups => describe::<DescribeGroupResponse>(version, body, list)?,
            ApiKey::ConsumerGroupDescribe => {
                describe::<ConsumerGroupDescribeResponse>(version, body, list)?
            }
            ApiKey::DeleteGroups => Long::Delete { groups: list },
            ApiKey::LeaveGroup => Long::Leave { group_id, members: list },
            _ => {
                let require_stable = version >= 7 && body.boolean("require_stable")?;
                let entries = MAX_ENTRIES_PER_REQUEST - self.left + usize::from(version < 8);
                Long::Fetch { groups: list, require_stable, entries }
            }
        };
        body.tags()?;
        Ok(long)
    }
}

fn begin_list(
    body: &mut Reader<'_>,
    field: &'static str,
    minimum: usize,
    left: &mut usize,
) -> Result<Unread> {
    let Some(count) = body.counted_length(field, minimum, left)? else {
        return Err(body.error(field, DecodeErrorKind::Null));
    };
    Ok(Unread { at: body.position() as u32, count: count as u32 })
}

fn describe<'a, G: DescribedGroup>(
    version: i16,
    body: &mut Reader<'a>,
    groups: Unread,
) -> Result<Long<'a>> {
    let include_authorized_operations = decode_end::<G>(version, body)?;
    Ok(Long::Describe { groups, include_authorized_operations })
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
