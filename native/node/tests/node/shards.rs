//! The same requests over 1 and over 50 shards get the same answers.

use std::collections::BTreeMap;

use kcoord_wire::api::{RequestBody, ResponseBody};
use kcoord_wire::header::APIS;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::ask::*;
use crate::host::Host;
use crate::random;

const GROUPS: [&str; 6] = ["g", "h", "i", "消费组", "x-17", "my-group"];
const EXAMPLES: u32 = 300;

/// Members are named by who they are in the answers so far: the `n`th that joined.
#[derive(Clone, Debug)]
enum Act {
    Join { group: usize, member: Option<usize>, version: i16 },
    Sync { member: usize },
    Heartbeat { member: usize },
    Leave { member: usize },
    Commit { group: usize, partition: i32 },
    Fetch { groups: Vec<usize> },
    Describe { groups: Vec<usize> },
    Delete { groups: Vec<usize> },
    DeleteOffsets { group: usize },
    List,
    Abandon { member: usize },
    Sleep { ms: i64 },
    Raw { version: i16, body: RequestBody<'static> },
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let group = || 0..GROUPS.len();
    let groups = || vec(0..GROUPS.len(), 0..5);
    let member = || 0..8usize;
    let raw = select(&APIS[..]).prop_flat_map(|spec| {
        // At the newest version, which can carry whatever the request holds.
        random::requests(spec.api)
            .prop_map(move |body| Act::Raw { version: spec.max_version, body })
    });
    let act = prop_oneof![
        5 => (group(), proptest::option::of(member()), select(&[3i16, 9][..]))
            .prop_map(|(group, member, version)| Act::Join { group, member, version }),
        5 => member().prop_map(|member| Act::Sync { member }),
        2 => member().prop_map(|member| Act::Heartbeat { member }),
        2 => member().prop_map(|member| Act::Leave { member }),
        3 => (group(), 0..3).prop_map(|(group, partition)| Act::Commit { group, partition }),
        2 => groups().prop_map(|groups| Act::Fetch { groups }),
        2 => groups().prop_map(|groups| Act::Describe { groups }),
        1 => groups().prop_map(|groups| Act::Delete { groups }),
        1 => group().prop_map(|group| Act::DeleteOffsets { group }),
        1 => Just(Act::List),
        1 => member().prop_map(|member| Act::Abandon { member }),
        2 => (0..15_000i64).prop_map(|ms| Act::Sleep { ms }),
        3 => raw,
    ];
    vec(act, 1..40)
}

#[derive(Default)]
struct Member {
    group: usize,
    id: String,
    generation: i32,
}

/// One node, and what its peers have learnt.
struct Run {
    host: Host,
    members: Vec<Member>,
    /// Tickets of JoinGroups, with their group.
    joining: BTreeMap<u64, usize>,
    tickets: Vec<u64>,
}

impl Run {
    fn new(shards: usize) -> Self {
        let host = Host::new(shards);
        Run { host, members: Vec::new(), joining: BTreeMap::new(), tickets: Vec::new() }
    }

    /// The answers that this brought, by ticket.
    fn act(&mut self, act: &Act) -> Vec<(u64, ResponseBody)> {
        self.request(act);
        let mut answers: Vec<(u64, ResponseBody)> =
            std::mem::take(&mut self.host.answers).into_iter().collect();
        for (ticket, answer) in &mut answers {
            self.learn(*ticket, answer);
            if let ResponseBody::ListGroups(list) = answer {
                list.groups.sort_by(|a, b| a.group_id.cmp(&b.group_id));
            }
        }
        answers
    }

    fn learn(&mut self, ticket: u64, answer: &ResponseBody) {
        let (Some(group), ResponseBody::JoinGroup(joined)) = (self.joining.remove(&ticket), answer)
        else {
            return;
        };
        if joined.member_id.is_empty() {
            return;
        }
        let generation = joined.generation_id;
        match self.members.iter_mut().find(|member| *member.id == *joined.member_id) {
            Some(member) => member.generation = generation,
            None => {
                let id = joined.member_id.to_string();
                self.members.push(Member { group, id, generation });
            }
        }
    }

    fn request(&mut self, act: &Act) {
        let named = |groups: &[usize]| groups.iter().map(|g| GROUPS[*g]).collect::<Vec<_>>();
        let host = &mut self.host;
        let members = &self.members;
        let member = |n: usize| members.get(n % members.len().max(1));
        match act {
            Act::Join { group, member: n, version } => {
                let member = n.and_then(member);
                let (group, id) = member.map_or((*group, ""), |m| (m.group, &*m.id));
                let ticket = host.send(*version, &join(GROUPS[group], id));
                self.joining.insert(ticket, group);
                self.tickets.push(ticket);
            }
            Act::Sync { member: n } => {
                let Some(m) = member(*n) else { return };
                host.send(5, &sync(GROUPS[m.group], &m.id, m.generation));
            }
            Act::Heartbeat { member: n } => {
                let Some(m) = member(*n) else { return };
                host.send(4, &heartbeat(GROUPS[m.group], &m.id, m.generation));
            }
            Act::Leave { member: n } => {
                let Some(m) = member(*n) else { return };
                host.send(5, &leave(GROUPS[m.group], &m.id));
            }
            Act::Commit { group, partition } => {
                host.send(9, &commit(GROUPS[*group], &[("t", 0, &[*partition])]));
            }
            Act::Fetch { groups } => {
                let groups: Vec<FetchedGroup<'_>> =
                    named(groups).into_iter().map(|group| (group, None)).collect();
                host.send(9, &fetch(&groups));
            }
            Act::Describe { groups } => {
                host.send(6, &describe(&named(groups)));
            }
            Act::Delete { groups } => {
                host.send(2, &delete(&named(groups)));
            }
            Act::DeleteOffsets { group } => {
                host.send(0, &delete_offsets(GROUPS[*group], &[("t", &[0, 1])]));
            }
            Act::List => {
                host.send(5, &list());
            }
            Act::Abandon { member: n } => {
                let Some(ticket) = self.tickets.get(n % self.tickets.len().max(1)) else { return };
                host.node.abandon(*ticket);
            }
            Act::Sleep { ms } => host.sleep(*ms),
            Act::Raw { version, body } => {
                host.send(*version, body);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: EXAMPLES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn as_many_shards_as_one_likes(acts in acts()) {
        let (mut one, mut many) = (Run::new(1), Run::new(50));
        for act in &acts {
            prop_assert_eq!(one.act(act), many.act(act), "{:?}", act);
            prop_assert_eq!(&one.host.invalid, &many.host.invalid);
        }
    }
}
