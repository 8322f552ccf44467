//! The group's side of the offset APIs: who may commit, fetch and delete (offsets section 2). What
//! happens to the offsets then is `crate::offset`'s.

mod commit;
mod delete;
mod fetch;
mod topic_deletion;
mod transaction;
