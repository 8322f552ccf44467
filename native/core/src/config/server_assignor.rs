//! The assignors of consumer groups, by the names that settings and members have for them.

use std::sync::Arc;

use crate::assignor::Strategy;

/// Who computes the targets of a consumer group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAssignor {
    /// Kafka's `uniform`.
    Uniform,
    /// Kafka's `range`.
    Range,
    /// Even, then unchanged, whatever members subscribe to; as `sticky` of clients does it.
    Sticky,
    /// By the members' capacities (`group.assignment.capacities`).
    Weighted,
    /// By committed offsets against end offsets.
    LagAware,
    /// The host's own, of this name: it is asked, and has so long to answer.
    Own(Arc<str>),
}

impl ServerAssignor {
    /// All but the host's own.
    pub const BUILT_IN: [ServerAssignor; 5] = [
        ServerAssignor::Uniform,
        ServerAssignor::Range,
        ServerAssignor::Sticky,
        ServerAssignor::Weighted,
        ServerAssignor::LagAware,
    ];

    /// As settings and members name it.
    pub fn name(&self) -> &str {
        match self {
            ServerAssignor::Uniform => "uniform",
            ServerAssignor::Range => "range",
            ServerAssignor::Sticky => "sticky",
            ServerAssignor::Weighted => "weighted",
            ServerAssignor::LagAware => "lag-aware",
            ServerAssignor::Own(name) => name,
        }
    }

    /// The one of a name: a name that is none of the built-in ones is the host's own.
    pub fn of_name(name: &str) -> ServerAssignor {
        let built_in = ServerAssignor::BUILT_IN.into_iter().find(|known| known.name() == name);
        built_in.unwrap_or_else(|| ServerAssignor::Own(name.into()))
    }

    /// The assignor of one group's members and topics that it is; `None`: it knows more, or is not here.
    pub fn strategy(&self) -> Option<Strategy> {
        match self {
            ServerAssignor::Uniform => Some(Strategy::Uniform),
            ServerAssignor::Range => Some(Strategy::ServerRange),
            ServerAssignor::Sticky => Some(Strategy::Sticky),
            ServerAssignor::Weighted | ServerAssignor::LagAware | ServerAssignor::Own(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for assignor in ServerAssignor::BUILT_IN {
            assert_eq!(ServerAssignor::of_name(assignor.name()), assignor);
        }
        assert_eq!(ServerAssignor::of_name("mine"), ServerAssignor::Own("mine".into()));
    }
}
