//! Topics that a group of consumers subscribes to (`computeSubscribedTopics`, states section 9.4).
//!
//! Computed when it is asked for. Once a member comes, goes or changes, the topics of the
//! generation that is ending are remembered until the next one starts.

use std::collections::BTreeSet;

use crate::group::Machine;
use crate::record::Reader;

/// `None`: unknown, because a member's metadata is not a subscription.
pub type SubscribedTopics = Option<BTreeSet<Box<str>>>;

/// The protocol type of consumers, whose metadata is a `ConsumerProtocolSubscription`.
pub const CONSUMER_PROTOCOL_TYPE: &str = "consumer";

impl Machine {
    pub fn subscribed_topics(&self, group: u32) -> SubscribedTopics {
        let soft = self.classic(group).rebalance.as_ref();
        match soft.and_then(|soft| soft.subscribed_topics.as_ref()) {
            Some(remembered) => remembered.clone(),
            None => self.compute_subscribed_topics(group),
        }
    }

    /// To be called before the members of a group change.
    pub fn remember_subscribed_topics(&mut self, group: u32) {
        let soft = self.classic(group).rebalance.as_ref();
        if soft.is_none_or(|soft| soft.subscribed_topics.is_none()) {
            let topics = self.compute_subscribed_topics(group);
            self.rebalance_mut(group).subscribed_topics = Some(topics);
        }
    }

    /// Whether the members of a Stable group would give other topics than its generation began
    /// with: a static member came back with another subscription (states section 7.4).
    pub fn remembers_other_topics(&self, group: u32) -> bool {
        let soft = self.classic(group).rebalance.as_ref();
        let remembered = soft.and_then(|soft| soft.subscribed_topics.as_ref());
        remembered.is_some_and(|topics| *topics != self.compute_subscribed_topics(group))
    }

    fn compute_subscribed_topics(&self, group: u32) -> SubscribedTopics {
        let of = self.classic(group);
        if of.protocol_type() != CONSUMER_PROTOCOL_TYPE {
            return None;
        }
        let mut topics = BTreeSet::new();
        for row in of.member_rows() {
            let metadata = self.registry.members[row].metadata(of.protocol_name()?);
            topics.extend(parse_subscription(metadata)?);
        }
        Some(topics)
    }
}

/// Topics of a `ConsumerProtocolSubscription`: any version, read as version 0, which is the head of
/// all others. Where Kafka fails on a claimed size, this is unknown too.
fn parse_subscription(metadata: &[u8]) -> Option<Vec<Box<str>>> {
    let mut reader = Reader::new(metadata);
    reader.i16().ok()?;
    let count = usize::try_from(reader.i32().ok()?).ok()?;
    let mut topics = Vec::with_capacity(count.min(reader.rest().len() / size_of::<i16>()));
    for _ in 0..count {
        topics.push(reader.string().ok()?.into());
    }
    let user_data_bytes = reader.i32().ok()?;
    let is_whole = user_data_bytes < 0 || reader.rest().len() >= user_data_bytes as usize;
    is_whole.then_some(topics)
}

#[cfg(test)]
mod tests {
    use super::parse_subscription;

    #[test]
    fn reads_topics_and_refuses_the_rest() {
        let good = b"\x00\x03\x00\x00\x00\x01\x00\x02t1\xff\xff\xff\xffwhatever";
        assert_eq!(parse_subscription(good), Some(vec!["t1".into()]));
        for bad in [
            &b""[..],
            b"\x00\x00\x7f\xff\xff\xff\x00",
            b"\x00\x00\xff\xff\xff\xff",
            b"\x00\x00\x00\x00\x00\x01\x00\x02t1",
            b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01",
        ] {
            assert_eq!(parse_subscription(bad), None);
        }
    }
}
