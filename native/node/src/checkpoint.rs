//! The checkpoint of a node of one shard: the shard with its soft state, what its member ids are
//! made of, and the requests in flight. The configuration and the topics are not in it: the node
//! that goes on has them already.

use std::sync::Arc;

use kcoord_core::Shard;
use kcoord_core::record::fields::{write_bytes, write_i16, write_i32, write_i64, write_string};
use kcoord_core::record::{DecodeError, Reader};
use kcoord_core::request::Uuid;
use kcoord_core::shard::Sweep;

use super::slots::Header;
use super::uuids::Uuids;
use super::{LOADING, Node, Status, Topic};
use kcoord_wire::header::ApiSpec;

const SHARD: usize = 0;

impl Node {
    /// # Panics
    /// If the node has not one shard alone, which serves and whose records are all committed.
    pub fn checkpoint(&self) -> Vec<u8> {
        assert!(self.shards.len() == 1 && self.status[SHARD].active, "one shard that serves");
        let mut out = Vec::new();
        write_bytes(&mut out, &self.uuids.to_bytes());
        write_i32(&mut out, self.deleted.len() as i32);
        for (_, topic, _) in &self.deleted {
            write_string(&mut out, &topic.name);
            write_i64(&mut out, (topic.id.0 >> 64) as i64);
            write_i64(&mut out, topic.id.0 as i64);
        }
        let mut waiting = self.slots.in_flight();
        waiting.sort_unstable_by_key(|(_, header)| header.ticket);
        write_i32(&mut out, waiting.len() as i32);
        for (_, header) in &waiting {
            write_i64(&mut out, header.ticket as i64);
            write_i32(&mut out, header.correlation_id);
            write_i16(&mut out, header.api as i16);
            write_i16(&mut out, header.version);
        }
        let tickets = waiting.iter().map(|(core, header)| (*core, header.ticket)).collect();
        out.extend(self.shards[SHARD].checkpoint(renaming(tickets)));
        out
    }

    /// Takes in what [`checkpoint`](Self::checkpoint) gave. After an error the node is of no use.
    ///
    /// # Panics
    /// If the node has not one shard alone, which was not loaded.
    pub fn resume(&mut self, checkpoint: &[u8]) -> Result<(), DecodeError> {
        assert!(self.shards.len() == 1 && !self.status[SHARD].active, "one shard, not loaded");
        let from = &mut Reader::new(checkpoint);
        self.uuids = Uuids::of_bytes(from.bytes()?).ok_or(DecodeError("a seed of other length"))?;
        for _ in 0..from.i32()? {
            let name = from.string()?.into();
            let (high, low) = (from.i64()? as u64, from.i64()? as u64);
            let id = Uuid(u128::from(high) << 64 | u128::from(low));
            let (end_offsets, racks) = (Vec::new(), Vec::new());
            let topic = Topic { name, id, partitions: 0, end_offsets, racks };
            self.deleted.push((SHARD, Arc::new(topic), Sweep::default()));
        }
        let mut tickets = Vec::new();
        for _ in 0..from.i32()? {
            let (ticket, correlation_id) = (from.i64()? as u64, from.i32()?);
            let (api_key, version) = (from.i16()?, from.i16()?);
            let spec = ApiSpec::of(api_key).ok_or(DecodeError("an unknown API"))?;
            let header = Header { ticket, correlation_id, api: spec.api, version };
            tickets.push((ticket, self.slots.open(header, SHARD, None)));
        }
        self.slots.settle();
        let (config, topics) = (self.config.clone(), self.catalogue.clone());
        self.shards[SHARD] = Shard::resume(config, from.rest(), topics, renaming(tickets))?;
        self.shards[SHARD].tell_events(self.tells_events);
        let timeout_ms = self.shards[SHARD].poll_timeout().unwrap_or(i64::MAX);
        self.status[SHARD] = Status { active: true, behind: false, timeout_ms, ..LOADING };
        Ok(())
    }
}

/// What each ticket is called on the other side: the core's own are of this process alone.
fn renaming(mut tickets: Vec<(u64, u64)>) -> impl Fn(u64) -> u64 {
    tickets.sort_unstable();
    move |ticket| {
        let at = tickets.binary_search_by_key(&ticket, |(from, _)| *from);
        tickets[at.expect("who waits is in flight")].1
    }
}
