//! The group's side of the offset APIs: who may commit, fetch and delete (spec/offsets.md). What
//! happens to the offsets then is `crate::offset`'s.

mod commit;
mod delete;
mod fetch;
mod topic_deletion;
