//! Live state is replayed state: a shard that reads the log has what the live one has.

use std::collections::BTreeSet;

use kcoord_core::views::GroupView;
use kcoord_core::{Config, Shard};

use crate::breaks::{Check, Invariant, Violation, check};
use crate::plan::{FIRST_NATIVE, GROUPS};

/// `bytes`: all that the live shard has appended. Groups that are not at rest have state that is
/// never logged, so they are compared only in that they are there.
pub fn compare(live: &Shard, bytes: &[u8]) -> Check {
    let config = Config { hash_seed: [5, 6], ..live.config().clone() };
    let mut loaded = Shard::new(config);
    loaded.replay(bytes).map_err(|error| unreplayed(&error))?;
    let is_durable = |group: &GroupView| group.current_state_timestamp_ms != -1;
    let [groups, replayed] = [live, &loaded].map(|shard| shard.groups().collect::<Vec<_>>());
    for group in groups.iter().filter(|group| matches!(group.state, "Empty" | "Stable")) {
        let other = replayed.iter().find(|other| other.group_id == group.group_id);
        if is_durable(group) {
            check(other == Some(group), Invariant::Replay, || difference(group, other))?;
        }
    }
    let ids = |shard: &Shard, groups: &[GroupView]| -> BTreeSet<Box<str>> {
        let is_there = |group: &&GroupView| {
            is_durable(group) || shard.offsets(&group.group_id).next().is_some()
        };
        groups.iter().filter(is_there).map(|group| group.group_id.clone()).collect()
    };
    let (here, there) = (ids(live, &groups), ids(&loaded, &replayed));
    for id in here.symmetric_difference(&there) {
        // Joined where only offsets were, which are gone by now: written with its first members.
        let state = live.group(id).map_or("absent", |group| group.state);
        check(state.ends_with("Rebalance"), Invariant::Replay, || {
            format!("{id} is {state} in the live shard, and the log has something else")
        })?;
    }
    for id in &GROUPS[FIRST_NATIVE..] {
        check(live.consumer_records(id) == loaded.consumer_records(id), Invariant::Replay, || {
            let [live, loaded] = [live.group(id), loaded.group(id)];
            format!("{id}: live {live:?}, replayed {loaded:?}")
        })?;
    }
    let open = |shard: &Shard| (shard.open_transactions(), shard.unstable());
    check(open(live) == open(&loaded), Invariant::Replay, || {
        format!("transactions: live {:?}, replayed {:?}", open(live), open(&loaded))
    })?;
    for id in GROUPS {
        check(live.offsets(id).eq(loaded.offsets(id)), Invariant::Replay, || {
            let [live, loaded] = [live, &loaded].map(|shard| shard.offsets(id).collect::<Vec<_>>());
            format!("offsets of {id}: live {live:?}, replayed {loaded:?}")
        })?;
    }
    Ok(())
}

pub fn unreplayed(error: &dyn std::fmt::Display) -> Violation {
    let message = format!("the log cannot be replayed: {error}");
    Violation { invariant: Invariant::Replay, message }
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
