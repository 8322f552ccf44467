//! The checkpoint of rows and their node: their own state, and the node's behind it.

use kcoord_core::record::fields::{
    write_i16, write_i32, write_i64, write_nullable_string, write_string,
};
use kcoord_core::record::{DecodeError, Reader};

use super::{Rows, Waiting};
use kcoord_node::Node;

impl Rows {
    /// Everything that the answers to further rows depend on, but for configuration and topics.
    ///
    /// # Panics
    /// Before the first row or [`advance`](Self::advance).
    pub fn checkpoint(&self, node: &Node) -> Vec<u8> {
        let mut out = Vec::new();
        write_i32(&mut out, self.shard as i32);
        write_i32(&mut out, self.shards as i32);
        write_i64(&mut out, self.next_offset);
        write_i64(&mut out, self.now_ms.expect("it has served"));
        write_i64(&mut out, self.next_timeout_ms.unwrap_or(i64::MAX));
        write_i64(&mut out, self.next_ticket as i64);
        write_i32(&mut out, self.waiting.len() as i32);
        for (ticket, waiting) in &self.waiting {
            write_i64(&mut out, *ticket as i64);
            write_i64(&mut out, waiting.seq);
            write_string(&mut out, &waiting.group_id);
            write_nullable_string(&mut out, waiting.member_id.as_deref());
            write_i16(&mut out, waiting.api_key);
            write_i16(&mut out, waiting.api_version);
            out.push(u8::from(waiting.generation.is_some()));
            write_i32(&mut out, waiting.generation.unwrap_or_default());
        }
        out.extend(node.checkpoint());
        out
    }

    /// Goes on where [`checkpoint`](Self::checkpoint) was called, with a node that was not loaded. After an
    /// error the node is of no use.
    pub fn resume(&mut self, node: &mut Node, checkpoint: &[u8]) -> Result<(), String> {
        assert!(self.now_ms.is_none(), "it has served already");
        let from = &mut Reader::new(checkpoint);
        let unreadable = |error: DecodeError| error.to_string();
        let of = (from.i32().map_err(unreadable)?, from.i32().map_err(unreadable)?);
        if of != (self.shard as i32, self.shards as i32) {
            let (shard, shards) = (self.shard, self.shards);
            return Err(format!("it is of shard {} of {}, not {shard} of {shards}", of.0, of.1));
        }
        self.read(from).map_err(unreadable)?;
        node.resume(from.rest()).map_err(unreadable)?;
        super::serve(node);
        Ok(())
    }

    fn read(&mut self, from: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.next_offset = from.i64()?;
        self.now_ms = Some(from.i64()?);
        self.next_timeout_ms = Some(from.i64()?).filter(|due_ms| *due_ms != i64::MAX);
        self.next_ticket = from.i64()? as u64;
        for _ in 0..from.i32()? {
            let ticket = from.i64()? as u64;
            let waiting = Waiting {
                seq: from.i64()?,
                group_id: from.string()?.into(),
                member_id: from.nullable_string()?.map(Into::into),
                api_key: from.i16()?,
                api_version: from.i16()?,
                generation: (from.u8()? != 0).then_some(0),
            };
            let generation = from.i32()?;
            let generation = waiting.generation.map(|_| generation);
            self.waiting.insert(ticket, Waiting { generation, ..waiting });
        }
        Ok(())
    }
}
