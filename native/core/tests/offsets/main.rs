//! The rules of `offsets.md` that hold whatever the group's state, by subject. What was written
//! is also replayed, and must give the live state.

mod commit;
mod delete;
mod expiration;
mod fetch;
mod story;
mod transaction;
