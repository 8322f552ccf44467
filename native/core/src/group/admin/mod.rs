//! DescribeGroups, ListGroups and DeleteGroups (states section 9).

mod delete;
mod describe;
mod list;
