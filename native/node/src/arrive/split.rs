//! Requests that name several groups, or all: one part for each shard or group, gathered again in
//! `gather.rs`. A slice of a long one goes the same way as a short one whole. A shard that is still
//! loading answers its parts with COORDINATOR_LOAD_IN_PROGRESS, one that another node leads with
//! NOT_COORDINATOR.

use std::ops::Range;

use hashbrown::HashSet;
use kcoord_core::ErrorCode;
use kcoord_core::request::{
    ConsumerGroupDescribeRequest, DeleteGroupsRequest, DescribeGroupRequest, LeaveGroupRequest,
    ListGroupsRequest, OffsetFetchRequest, OffsetFetchTopic, Request, RequestContext, Uuid,
};
use kcoord_core::response::{
    ConsumerGroupDescribeResponse, DeleteGroupsResponse, DescribeGroupResponse, LeaveGroupResponse,
    ListGroupsResponse, Response,
};

use super::{Arrival, Arrivals};
use crate::gather::{FetchPart, Gather, Parts};
use crate::routing::shard_of;
use crate::slots::Slots;
use kcoord_wire::api::describing::DescribeGroupsRequest;
use kcoord_wire::api::{self, RequestBody};
use kcoord_wire::header::ApiKey;

impl<'a> Arrivals<'a, '_> {
    pub(super) fn fetch(&mut self, arrival: Arrival<'a>, mut groups: Vec<OffsetFetchRequest<'a>>) {
        if groups.is_empty() {
            return self.reply(&arrival.header, |out, version| {
                api::offset_fetch::encode_response(out, version, &[]);
            });
        }
        let by_id = arrival.header.version >= 10;
        if groups.len() == 1 && !by_id {
            let request = groups.pop().expect("one group");
            if self.unserved(self.shard_of(request.group_id)).is_none() {
                return self.one(arrival, request.group_id, Request::OffsetFetch(request), None);
            }
            groups.push(request);
        }
        let arrival = self.begin_parts(arrival, Parts::fetching(arrival.header.version));
        self.fetch_slice(&arrival, groups);
        self.end_parts(&arrival);
    }

    pub(super) fn fetch_slice(
        &mut self,
        arrival: &Arrival<'a>,
        mut requests: Vec<OffsetFetchRequest<'a>>,
    ) {
        let by_id = arrival.header.version >= 10;
        let mut fresh = Vec::with_capacity(requests.len());
        for request in &mut requests {
            let all = request.topics.is_none();
            let unknown = match &mut request.topics {
                Some(topics) if by_id => self.resolve(topics),
                _ => Vec::new(),
            };
            // What was found is the answer, but for topics by id that the catalogue does not know.
            let is_more = by_id && (all || !unknown.is_empty());
            fresh.push(is_more.then_some(FetchPart { unknown, all }));
        }
        let shards = requests.iter().map(|request| self.shard_of(request.group_id) as u32);
        let shards: Vec<u32> = shards.collect();
        let gather = self.gather(arrival);
        let first = gather.grow(shards.iter().copied());
        if let Parts::OffsetFetch { asked, .. } = &mut gather.parts {
            let of_parts = (first..).zip(fresh);
            asked.extend(of_parts.filter_map(|(part, more)| Some((part, more?))));
        }
        for (part, (request, shard)) in (first..).zip(requests.into_iter().zip(shards)) {
            let refuse = |request: &Request<'a>, code| match request {
                Request::OffsetFetch(request) => {
                    Response::OffsetFetch(api::offset_fetch::refused(request, code))
                }
                other => unreachable!("{other:?} is no OffsetFetch"),
            };
            self.part(&arrival.context, part, shard, Request::OffsetFetch(request), refuse);
        }
    }

    /// Puts names to topic ids; takes out the topics whose id is unknown.
    fn resolve(&self, topics: &mut Vec<OffsetFetchTopic<'a>>) -> Vec<(Uuid, Vec<i32>)> {
        let mut unknown = Vec::new();
        topics.retain_mut(|topic| match self.topics.name_of(topic.topic_id) {
            Some(name) => {
                topic.name = name;
                true
            }
            None => {
                unknown.push((topic.topic_id, core::mem::take(&mut topic.partition_indexes)));
                false
            }
        });
        unknown
    }

    pub(super) fn describe(&mut self, arrival: Arrival<'a>, request: DescribeGroupsRequest<'a>) {
        if request.groups.is_empty() {
            let nothing = RequestBody::empty(arrival.header.api);
            return self.reply(&arrival.header, |out, version| {
                api::encode_error(out, version, &nothing, ErrorCode::None);
            });
        }
        let parts =
            Parts::describing(arrival.header.version, request.include_authorized_operations);
        let arrival = self.begin_parts(arrival, parts);
        self.describe_slice(&arrival, request.groups.into_iter());
        self.end_parts(&arrival);
    }

    pub(super) fn describe_slice(
        &mut self,
        arrival: &Arrival<'a>,
        group_ids: impl Iterator<Item = &'a str> + Clone,
    ) {
        let shards = group_ids.clone().map(|group_id| self.shard_of(group_id) as u32);
        let shards: Vec<u32> = shards.collect();
        let gather = self.gather(arrival);
        let first = gather.grow(shards.iter().copied());
        for (part, (group_id, shard)) in (first..).zip(group_ids.zip(shards)) {
            if arrival.header.api == ApiKey::ConsumerGroupDescribe {
                let request = ConsumerGroupDescribeRequest { group_id };
                let request = Request::ConsumerGroupDescribe(request);
                self.part(&arrival.context, part, shard, request, |_, error_code| {
                    let refused =
                        ConsumerGroupDescribeResponse::refused(group_id, error_code.into());
                    Response::ConsumerGroupDescribe(Box::new(refused))
                });
                continue;
            }
            let request = Request::DescribeGroups(DescribeGroupRequest { group_id });
            self.part(&arrival.context, part, shard, request, |_, error_code| {
                let refused = DescribeGroupResponse::refused(group_id, error_code);
                Response::DescribeGroups(Box::new(refused))
            });
        }
    }

    /// A part of a LeaveGroup, which is one of its own to the group.
    pub(super) fn leave_slice(&mut self, arrival: &Arrival<'a>, request: LeaveGroupRequest<'a>) {
        let shard = self.shard_of(request.group_id) as u32;
        let gather = self.gather(arrival);
        let part = gather.grow([shard]);
        self.part(&arrival.context, part, shard, Request::LeaveGroup(request), |_, error_code| {
            Response::LeaveGroup(LeaveGroupResponse { error_code, members: Vec::new() })
        });
    }

    pub(super) fn delete_groups(&mut self, arrival: Arrival<'a>, request: DeleteGroupsRequest<'a>) {
        if request.groups_names.is_empty() {
            let response = DeleteGroupsResponse { results: Vec::new() };
            return self.reply(&arrival.header, |out, version| {
                api::delete_groups::encode_response(out, version, &response);
            });
        }
        let parts = Parts::deleting(arrival.header.version);
        let groups = self.distinct(request.groups_names);
        let arrival = self.begin_parts(arrival, parts);
        self.delete_slice(&arrival, groups.into_iter());
        self.end_parts(&arrival);
    }

    /// Each group once, as in Kafka.
    pub(super) fn distinct(&self, mut groups: Vec<&'a str>) -> Vec<&'a str> {
        let mut seen = HashSet::with_hasher(self.topics.hasher().clone());
        groups.retain(|name| seen.insert(*name));
        groups
    }

    /// Groups of a shard go to it together: one append deletes them.
    pub(super) fn delete_slice(
        &mut self,
        arrival: &Arrival<'a>,
        group_ids: impl Iterator<Item = &'a str>,
    ) {
        let mut by_shard: Vec<(Vec<usize>, Vec<&'a str>)> = Vec::new();
        by_shard.resize_with(self.batches.len(), Default::default);
        let (shards, gather) = (self.batches.len(), self.gather(arrival));
        let Parts::DeleteGroups { results, .. } = &mut gather.parts else { unreachable!() };
        for name in group_ids {
            let (places, groups) = &mut by_shard[shard_of(name, shards)];
            places.push(results.push(name));
            groups.push(name);
        }
        let reached = by_shard.into_iter().enumerate();
        let (places, requests): (Vec<_>, Vec<_>) = reached
            .filter(|(_, (places, _))| !places.is_empty())
            .map(|(shard, (places, groups))| (places, (shard as u32, groups)))
            .unzip();
        let first = gather.grow(requests.iter().map(|(shard, _)| *shard));
        if let Parts::DeleteGroups { asked, .. } = &mut gather.parts {
            asked.extend((first..).zip(places));
        }
        for (part, (shard, groups_names)) in (first..).zip(requests) {
            let request = Request::DeleteGroups(DeleteGroupsRequest { groups_names });
            let refuse = |request: &Request<'a>, code| match request {
                Request::DeleteGroups(request) => {
                    let refused = |name: &&str| (Box::from(*name), code);
                    let results = request.groups_names.iter().map(refused).collect();
                    Response::DeleteGroups(DeleteGroupsResponse { results })
                }
                other => unreachable!("{other:?} is no DeleteGroups"),
            };
            self.part(&arrival.context, part, shard, request, refuse);
        }
    }

    /// Some offsets of a group that will be deleted; nothing answers.
    pub(super) fn delete_offsets_slice(
        &mut self,
        arrival: &Arrival<'a>,
        group_id: &'a str,
        most: usize,
    ) {
        let shard = self.shard_of(group_id);
        if self.unserved(shard).is_none() {
            let request = Request::DeleteGroupOffsets(group_id, most);
            self.batches[shard].push((arrival.context, request));
        }
    }

    /// The last of such a group, for which nobody waits any more.
    pub(super) fn delete_unasked(&mut self, arrival: &Arrival<'a>, group_id: &'a str) {
        let request = Request::DeleteGroups(DeleteGroupsRequest { groups_names: vec![group_id] });
        let shard = self.shard_of(group_id);
        if self.unserved(shard).is_none() {
            self.batches[shard].push((arrival.context, request));
        }
    }

    /// Whether its client is there still.
    pub(super) fn is_asked(&mut self, arrival: &Arrival<'a>) -> bool {
        self.slots.find(arrival.context.ticket).is_some()
    }

    /// Offsets that go with a group, if it can be deleted now.
    pub(super) fn deletable_offsets_of(&self, group_id: &str) -> usize {
        match self.unserved(self.shard_of(group_id)) {
            None => self.shard(group_id).deletable_offsets_of(group_id),
            Some(_) => 0,
        }
    }

    pub(super) fn list(&mut self, arrival: Arrival<'a>, request: ListGroupsRequest<'a>) {
        let arrival = self.begin_parts(arrival, Parts::listing(arrival.header.version));
        for shard in 0..self.batches.len() {
            self.list_part(&arrival, shard, Request::ListGroups(request.clone()));
        }
        self.end_parts(&arrival);
    }

    pub(super) fn list_slice(
        &mut self,
        arrival: &Arrival<'a>,
        request: &ListGroupsRequest<'static>,
        shard: usize,
        rows: Range<u32>,
    ) {
        self.list_part(arrival, shard, Request::ListGroupRows(request.clone(), rows));
    }

    fn list_part(&mut self, arrival: &Arrival<'a>, shard: usize, request: Request<'a>) {
        let part = self.gather(arrival).grow([shard as u32]);
        self.part(&arrival.context, part, shard as u32, request, |_, error_code| {
            // A client lists groups by asking every node: groups of other nodes are not missing
            // here.
            let away = error_code == ErrorCode::NotCoordinator;
            let error_code = if away { ErrorCode::None } else { error_code };
            Response::ListGroups(ListGroupsResponse { error_code, groups: Vec::new() })
        });
    }

    /// Takes a slot for a request in parts, which are then added.
    pub(super) fn begin_parts(&mut self, mut arrival: Arrival<'a>, parts: Parts) -> Arrival<'a> {
        arrival.context.ticket = self.slots.open_sliced(arrival.header, parts);
        arrival
    }

    /// All parts were added.
    pub(super) fn end_parts(&mut self, arrival: &Arrival<'a>) {
        self.gather(arrival).is_growing = false;
    }

    pub(super) fn gather(&mut self, arrival: &Arrival<'a>) -> &mut Gather {
        let found = self.slots.find(arrival.context.ticket);
        found.and_then(|(_, gather, _)| gather).expect("a request in parts is in flight")
    }

    /// Hands one part to its shard, or answers it for a shard that does not serve.
    pub(super) fn part(
        &mut self,
        context: &RequestContext<'a>,
        part: usize,
        shard: u32,
        request: Request<'a>,
        refuse: impl FnOnce(&Request<'a>, ErrorCode) -> Response,
    ) {
        let (ticket, shard) = (Slots::part(context.ticket, part), shard as usize);
        match self.unserved(shard) {
            None => self.batches[shard].push((RequestContext { ticket, ..*context }, request)),
            Some(code) => self.early.push((ticket, refuse(&request, code))),
        }
    }
}
