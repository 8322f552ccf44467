//! Heartbeats without frames: from rows, and from hosts that embed the node. Most requests are
//! heartbeats.

use kcoord_core::ErrorCode;
use kcoord_core::request::HeartbeatRequest;

use super::{Node, Turn, routing};

/// Heartbeats that go to the shards together: enough to overlap cache misses, and few enough to
/// stay in the cache themselves.
const HEARTBEATS_AT_ONCE: usize = 1024;

/// Heartbeats on their way to a shard, which rows they are, and what they hear.
#[derive(Default)]
struct Beats<'a> {
    rows: Vec<usize>,
    beats: Vec<HeartbeatRequest<'a>>,
    codes: Vec<ErrorCode>,
}

impl Node {
    /// A turn of heartbeats alone, on a node of one shard, without frames: their error codes go
    /// behind `codes`, in order. `turn` becomes what was due before them.
    ///
    /// # Panics
    /// If the node has not one shard alone, which serves.
    pub fn step_heartbeats(
        &mut self,
        now_ms: i64,
        beats: &[HeartbeatRequest<'_>],
        codes: &mut Vec<ErrorCode>,
        turn: &mut Turn,
    ) {
        assert!(self.shards.len() == 1 && self.status[0].active, "one shard that serves");
        turn.begin(0);
        self.begin(now_ms, &[]);
        self.shards[0].heartbeat_batch(now_ms, beats, codes);
        self.status[0].touched = true;
        self.end(now_ms, turn);
    }

    /// Heartbeats without frames: group, member and generation of each; the error codes in order.
    pub fn heartbeat_many<'a>(
        &mut self,
        now_ms: i64,
        beats: impl Iterator<Item = (&'a str, &'a str, i32)>,
    ) -> Vec<ErrorCode> {
        let mut batches: Vec<Beats<'_>> = Vec::new();
        batches.resize_with(self.shards.len(), Beats::default);
        let mut codes = Vec::new();
        for (row, (group_id, member_id, generation_id)) in beats.enumerate() {
            let beat =
                HeartbeatRequest { group_id, generation_id, member_id, group_instance_id: None };
            let shard = routing::shard_of(group_id, self.shards.len());
            codes.push(ErrorCode::None);
            if group_id.is_empty() {
                codes[row] = ErrorCode::InvalidGroupId;
            } else if self.status[shard].active {
                batches[shard].rows.push(row);
                batches[shard].beats.push(beat);
            } else if self.status[shard].away {
                codes[row] = ErrorCode::NotCoordinator;
            }
            if codes.len() % HEARTBEATS_AT_ONCE == 0 {
                self.beat(now_ms, &mut batches, &mut codes);
            }
        }
        self.beat(now_ms, &mut batches, &mut codes);
        codes
    }

    /// Hands the batches to their shards and puts the answers where they belong.
    fn beat(&mut self, now_ms: i64, batches: &mut [Beats<'_>], codes: &mut [ErrorCode]) {
        let shards = self.shards.iter_mut().zip(&mut self.status).zip(batches);
        for ((shard, status), batch) in shards.filter(|(_, batch)| !batch.rows.is_empty()) {
            shard.heartbeat_batch(now_ms, &batch.beats, &mut batch.codes);
            status.touched = true;
            for (row, code) in batch.rows.drain(..).zip(batch.codes.drain(..)) {
                codes[row] = code;
            }
            batch.beats.clear();
        }
    }
}
