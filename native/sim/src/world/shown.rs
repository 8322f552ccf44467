//! Answers as the trace shows them.

/// An answer in a line.
pub fn shown(answer: &kcoord_wire::api::ResponseBody) -> String {
    use kcoord_wire::api::ResponseBody as A;
    use kcoord_wire::api::describing::Described;
    match answer {
        A::JoinGroup(a) => format!(
            "{:?} member={:?} generation={}{}",
            a.error_code,
            crate::ask::short(&a.member_id),
            a.generation_id,
            if a.leader == a.member_id && !a.leader.is_empty() { " leads" } else { "" }
        ),
        A::SyncGroup(a) => format!("{:?} {} bytes", a.error_code, a.assignment.len()),
        A::Heartbeat(code) => format!("{code:?}"),
        A::LeaveGroup(a) => {
            let members: Vec<_> = a.members.iter().map(|member| member.error_code).collect();
            format!("{:?} {members:?}", a.error_code)
        }
        A::OffsetCommit(a) => {
            let topics = a.topics.iter().map(|topic| (&topic.name, &topic.partitions));
            format!("{:?}", topics.collect::<Vec<_>>())
        }
        A::OffsetFetch(groups) => {
            let group = |group: &kcoord_core::response::OffsetFetchResponse| {
                let topics = group.topics().flat_map(|topic| {
                    let name = topic.name();
                    let of = topic.partitions;
                    of.map(move |p| format!("{name}-{}={}", p.partition_index, p.committed_offset))
                });
                (group.error_code(), topics.collect::<Vec<_>>())
            };
            format!("{:?}", groups.iter().map(group).collect::<Vec<_>>())
        }
        A::OffsetDelete(a) => format!("{:?}", a.error_code),
        A::DescribeGroups(Described { groups, .. }) => {
            let states = groups.iter().map(|group| (&group.group_id, group.group_state));
            format!("{:?}", states.collect::<Vec<_>>())
        }
        A::DeleteGroups(a) => format!("{:?}", a.results),
        A::ListGroups(a) => format!("{:?} {} groups", a.error_code, a.groups.len()),
        other => format!("{other:?}"),
    }
}
