//! Partition assignors: Kafka's four client-side strategies and its two server-side ones, with
//! the results of the Java classes, list order included (spec: assignors.md).
//!
//! Pure functions: a [`Group`] goes in, an [`Assignment`] comes out, and nothing is remembered.
//! Names become numbers in [`GroupBuilder`], once, so that an assignor compares no strings.

mod builder;
mod group;
pub mod lag_aware;
mod levelling;
mod order;
mod racks;
mod range;
mod round_robin;
pub mod sticky;
mod uniform;
pub mod weighted;

use core::fmt;

pub use builder::{GroupBuilder, MAX_PARTITIONS, NewMember, TooManyPartitions, TopicId};
pub use group::{Assignment, Group, Member, NONE};

/// Which assignor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// `range`: topic by topic, in runs (RangeAssignor).
    Range,
    /// `roundrobin` (RoundRobinAssignor).
    RoundRobin,
    /// `sticky`: even, then unchanged (StickyAssignor, KIP-54).
    Sticky,
    /// `cooperative-sticky`: what moves is given up first (KIP-429).
    CooperativeSticky,
    /// Of the server (KIP-848).
    Uniform,
    /// Of the server (KIP-848), where it is called `range`.
    ServerRange,
}

impl Strategy {
    /// All that there are.
    pub const ALL: [Strategy; 6] = [
        Strategy::Range,
        Strategy::RoundRobin,
        Strategy::Sticky,
        Strategy::CooperativeSticky,
        Strategy::Uniform,
        Strategy::ServerRange,
    ];

    /// As in Kafka's configuration, but for the server's range, which shares its name there.
    pub const fn name(self) -> &'static str {
        match self {
            Strategy::Range => "range",
            Strategy::RoundRobin => "roundrobin",
            Strategy::Sticky => "sticky",
            Strategy::CooperativeSticky => "cooperative-sticky",
            Strategy::Uniform => "uniform",
            Strategy::ServerRange => "server-range",
        }
    }

    /// Of Kafka's name.
    pub fn of_name(name: &str) -> Option<Strategy> {
        Strategy::ALL.into_iter().find(|strategy| strategy.name() == name)
    }

    /// Whether it asks what members own.
    pub const fn knows_the_past(self) -> bool {
        matches!(self, Strategy::Sticky | Strategy::CooperativeSticky | Strategy::Uniform)
    }
}

/// What to do where the Java class breaks one of its own laws (see docs/assignors-design.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compat {
    /// Keep the law.
    Correct,
    /// Do as Java does.
    Java,
}

/// Whether the members' subscriptions count as the same. Kafka asks more than the assignors see: topics
/// that do not exist make a difference, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All members subscribe to the same topics.
    Homogeneous,
    /// Members subscribe to different topics.
    Heterogeneous,
}

/// How the Java class fails; [`Compat::Correct`] never does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JavaError {
    /// `java.lang.IllegalStateException`.
    IllegalState,
    /// `java.lang.NullPointerException`.
    NullPointer,
    /// It would still be moving partitions.
    Endless,
}

impl fmt::Display for JavaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JavaError::IllegalState => "Java throws IllegalStateException",
            JavaError::NullPointer => "Java throws NullPointerException",
            JavaError::Endless => "Java does not come to an end",
        })
    }
}

impl std::error::Error for JavaError {}

/// As [`assign`], for the server's assignors, who are told the shape.
///
/// # Errors
/// With [`Compat::Java`], where the Java class throws.
pub fn assign_shaped(
    strategy: Strategy,
    group: &Group<'_>,
    shape: Shape,
    compat: Compat,
) -> Result<Assignment, JavaError> {
    match strategy {
        Strategy::Uniform if !group.members().is_empty() => Ok(uniform::assign(group, shape)),
        other => assign(other, group, compat),
    }
}

/// Assigns every partition of each topic that has a subscriber.
///
/// # Errors
/// With [`Compat::Java`], where the Java class throws.
pub fn assign(
    strategy: Strategy,
    group: &Group<'_>,
    compat: Compat,
) -> Result<Assignment, JavaError> {
    if group.members().is_empty() {
        return Ok(Assignment::default());
    }
    Ok(match strategy {
        Strategy::Range => range::assign(group),
        Strategy::RoundRobin => round_robin::assign(group),
        Strategy::Sticky => sticky::assign(group, compat)?,
        Strategy::CooperativeSticky => sticky::assign_cooperative(group, compat)?,
        Strategy::Uniform => uniform::assign(group, uniform::shape_of(group)),
        Strategy::ServerRange => range::assign_server(group),
    })
}
