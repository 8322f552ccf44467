//! Live state is replayed state: a shard that reads the log has what the live one has.

use std::collections::BTreeSet;

use kcoord_core::views::GroupView;
use kcoord_core::{Config, Shard};

use crate::breaks::{Check, Invariant, Violation, check};
use crate::plan::GROUPS;

/// `bytes`: all that the live shard has appended. Groups that are not at rest have state that is
/// never logged, so they are compared only in that they are there.
pub fn compare(live: &Shard, bytes: &[u8]) -> Check {
    let config = Config { hash_seed: [5, 6], ..live.config().clone() };
    let mut loaded = Shard::new(config);
    loaded.replay(bytes).map_err(|error| Violation {
        invariant: Invariant::Replay,
        message: format!("the log cannot be replayed: {error}"),
    })?;
    let is_durable = |group: &GroupView| group.current_state_timestamp_ms != -1;
    for group in live.groups().filter(|group| matches!(group.state, "Empty" | "Stable")) {
        let other = loaded.group(&group.group_id);
        if is_durable(&group) {
            check(other.as_ref() == Some(&group), Invariant::Replay, || {
                difference(&group, other.as_ref())
            })?;
        }
    }
    let ids = |shard: &Shard| -> BTreeSet<Box<str>> {
        let is_there = |group: &GroupView| {
            is_durable(group) || shard.offsets(&group.group_id).next().is_some()
        };
        shard.groups().filter(is_there).map(|group| group.group_id).collect()
    };
    let (here, there) = (ids(live), ids(&loaded));
    for id in here.symmetric_difference(&there) {
        // Joined where only offsets were, which are gone by now: written with its first members.
        let state = live.group(id).map_or("absent", |group| group.state);
        check(state.ends_with("Rebalance"), Invariant::Replay, || {
            format!("{id} is {state} in the live shard, and the log has something else")
        })?;
    }
    for id in GROUPS {
        let offsets = |shard: &Shard| format!("{:?}", shard.offsets(id).collect::<Vec<_>>());
        let is_there = live.offsets(id).next().is_some() || loaded.offsets(id).next().is_some();
        if is_there {
            let (live, loaded) = (offsets(live), offsets(&loaded));
            check(live == loaded, Invariant::Replay, || {
                format!("offsets of {id}: live {live}, replayed {loaded}")
            })?;
        }
    }
    Ok(())
}

/// Where two views of a group differ, in as few words as it takes.
fn difference(live: &GroupView, replayed: Option<&GroupView>) -> String {
    let id = &live.group_id;
    let Some(replayed) = replayed else { return format!("{id} is live, and not in the log") };
    let members = live.members.iter().zip(&replayed.members);
    match members.into_iter().find(|(live, replayed)| live != replayed) {
        Some((live, replayed)) => format!("a member of {id}: live {live:?}, replayed {replayed:?}"),
        None => format!("{id}: live {live:?}, replayed {replayed:?}"),
    }
}
