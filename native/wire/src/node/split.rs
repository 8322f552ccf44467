//! Requests that name several groups, or all: one part for each shard or group, gathered again in
//! `gather.rs`. A shard that is still loading answers its parts with
//! COORDINATOR_LOAD_IN_PROGRESS, one that another node leads with NOT_COORDINATOR.

use hashbrown::HashSet;
use kcoord_core::ErrorCode;
use kcoord_core::request::{
    DeleteGroupsRequest, DescribeGroupRequest, ListGroupsRequest, OffsetFetchRequest,
    OffsetFetchTopic, Request, RequestContext, Uuid,
};
use kcoord_core::response::{
    DeleteGroupsResponse, DescribeGroupResponse, ListGroupsResponse, Response,
};

use super::arrive::{Arrival, Arrivals};
use super::gather::{FetchPart, Gather, Parts};
use super::slots::{Header, Slots};
use crate::api;
use crate::api::describe_groups::{DescribeGroupsRequest, GROUP_OPERATIONS, OPERATIONS_OMITTED};

impl<'a> Arrivals<'a, '_> {
    pub(super) fn fetch(&mut self, arrival: Arrival<'a>, groups: Vec<OffsetFetchRequest<'a>>) {
        if groups.is_empty() {
            return self.reply(&arrival.header, |out, version| {
                api::offset_fetch::encode_response(out, version, &[]);
            });
        }
        let by_id = arrival.header.version >= 10;
        let mut requests = groups;
        let mut parts = Vec::with_capacity(requests.len());
        for request in &mut requests {
            let all = request.topics.is_none();
            let unknown = match &mut request.topics {
                Some(topics) if by_id => self.resolve(topics),
                _ => Vec::new(),
            };
            parts.push(FetchPart { response: None, unknown, all });
        }
        if requests.len() == 1 && !by_id {
            let request = requests.pop().expect("one group");
            if self.unserved(self.shard_of(request.group_id)).is_none() {
                return self.one(arrival, request.group_id, Request::OffsetFetch(request), None);
            }
            requests.push(request);
        }
        let shards = requests.iter().map(|request| self.shard_of(request.group_id) as u32);
        let shards: Vec<u32> = shards.collect();
        let ticket = self.open_parts(arrival.header, Parts::OffsetFetch(parts), shards.clone());
        for (part, (request, shard)) in requests.into_iter().zip(shards).enumerate() {
            let refuse = |request: &Request<'a>, code| match request {
                Request::OffsetFetch(request) => {
                    Response::OffsetFetch(api::offset_fetch::error_response(request, code))
                }
                other => unreachable!("{other:?} is no OffsetFetch"),
            };
            let request = Request::OffsetFetch(request);
            self.part(&arrival.context, ticket, part, shard, request, refuse);
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
        let asked = request.include_authorized_operations;
        let authorized_operations = if asked { GROUP_OPERATIONS } else { OPERATIONS_OMITTED };
        let count = request.groups.len();
        if count == 0 {
            return self.reply(&arrival.header, |out, version| {
                let none: [&DescribeGroupResponse; 0] = [];
                api::describe_groups::encode_response(
                    out,
                    version,
                    none.into_iter(),
                    authorized_operations,
                );
            });
        }
        let groups = std::iter::repeat_with(|| None).take(count).collect();
        let parts = Parts::DescribeGroups { groups, authorized_operations };
        let shards = request.groups.iter().map(|group_id| self.shard_of(group_id) as u32);
        let shards: Vec<u32> = shards.collect();
        let ticket = self.open_parts(arrival.header, parts, shards.clone());
        for (part, (group_id, shard)) in request.groups.into_iter().zip(shards).enumerate() {
            let request = Request::DescribeGroup(DescribeGroupRequest { group_id });
            self.part(&arrival.context, ticket, part, shard, request, |_, error_code| {
                Response::DescribeGroup(Box::new(DescribeGroupResponse {
                    error_code,
                    error_message: None,
                    group_id: group_id.into(),
                    group_state: "",
                    protocol_type: "".into(),
                    protocol_data: "".into(),
                    members: Vec::new(),
                }))
            });
        }
    }

    /// Each distinct group once; those of a shard go to it together: one append deletes them.
    pub(super) fn delete_groups(&mut self, arrival: Arrival<'a>, request: DeleteGroupsRequest<'a>) {
        let mut seen = HashSet::with_hasher(self.topics.hasher().clone());
        let mut results: Vec<(Box<str>, ErrorCode)> = Vec::new();
        let mut by_shard: Vec<(Vec<usize>, Vec<&'a str>)> = Vec::new();
        by_shard.resize_with(self.batches.len(), Default::default);
        for name in request.groups_names.into_iter().filter(|name| seen.insert(*name)) {
            let (places, groups) = &mut by_shard[self.shard_of(name)];
            places.push(results.len());
            groups.push(name);
            results.push((name.into(), ErrorCode::None));
        }
        if results.is_empty() {
            let response = DeleteGroupsResponse { results: Vec::new() };
            return self.reply(&arrival.header, |out, version| {
                api::delete_groups::encode_response(out, version, &response);
            });
        }
        let reached =
            by_shard.into_iter().enumerate().filter(|(_, (places, _))| !places.is_empty());
        let (asked, requests): (Vec<_>, Vec<_>) =
            reached.map(|(shard, (places, groups))| (places, (shard as u32, groups))).unzip();
        let parts = Parts::DeleteGroups { results, asked };
        let shards = requests.iter().map(|(shard, _)| *shard).collect();
        let ticket = self.open_parts(arrival.header, parts, shards);
        for (part, (shard, groups_names)) in requests.into_iter().enumerate() {
            let request = Request::DeleteGroups(DeleteGroupsRequest { groups_names });
            let refuse = |request: &Request<'a>, code| match request {
                Request::DeleteGroups(request) => {
                    let refused = |name: &&str| (Box::from(*name), code);
                    let results = request.groups_names.iter().map(refused).collect();
                    Response::DeleteGroups(DeleteGroupsResponse { results })
                }
                other => unreachable!("{other:?} is no DeleteGroups"),
            };
            self.part(&arrival.context, ticket, part, shard, request, refuse);
        }
    }

    pub(super) fn list(&mut self, arrival: Arrival<'a>, request: ListGroupsRequest<'a>) {
        let none = || ListGroupsResponse { error_code: ErrorCode::None, groups: Vec::new() };
        let shards = 0..self.batches.len() as u32;
        let ticket =
            self.open_parts(arrival.header, Parts::ListGroups(none()), shards.clone().collect());
        for shard in shards {
            let request = Request::ListGroups(request.clone());
            self.part(&arrival.context, ticket, shard as usize, shard, request, |_, error_code| {
                // Whoever lists groups asks every node: what another leads is not missing here.
                let away = error_code == ErrorCode::NotCoordinator;
                let error_code = if away { ErrorCode::None } else { error_code };
                Response::ListGroups(ListGroupsResponse { error_code, groups: Vec::new() })
            });
        }
    }

    /// A slot for a request in parts, whose shards these are.
    fn open_parts(&mut self, header: Header, parts: Parts, shards: Vec<u32>) -> u64 {
        self.slots.open(header, 0, Some(Gather::new(parts, shards)))
    }

    /// Hands one part to its shard, or answers it for a shard that does not serve.
    fn part(
        &mut self,
        context: &RequestContext<'a>,
        ticket: u64,
        part: usize,
        shard: u32,
        request: Request<'a>,
        refuse: impl FnOnce(&Request<'a>, ErrorCode) -> Response,
    ) {
        let (ticket, shard) = (Slots::part(ticket, part), shard as usize);
        match self.unserved(shard) {
            None => self.batches[shard].push((RequestContext { ticket, ..*context }, request)),
            Some(code) => self.early.push((ticket, refuse(&request, code))),
        }
    }
}
