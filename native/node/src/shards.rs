//! The life of a shard in its node: loaded, served, dropped.

use kcoord_core::shard::Sweep;
use kcoord_core::{ReplayError, Shard};

use super::{LOADING, Node, Status, Turn};

impl Node {
    /// Applies a chunk of whole, uncompressed batches whose CRCs were checked, in log order.
    ///
    /// # Panics
    /// If the shard already serves: a live shard cannot be replayed into.
    pub fn replay(&mut self, shard: usize, chunk: &[u8]) -> Result<(), ReplayError> {
        let live = self.status[shard].active;
        assert!(!live, "shard {shard} is live: drop it before replaying its log");
        self.shards[shard].replay(chunk)
    }

    /// A shard of this node's configuration, beside it: to be loaded on any thread and then handed
    /// to [`adopt`](Self::adopt).
    pub fn loader(&self) -> Shard {
        Shard::new(self.config.clone())
    }

    /// Takes a loader in the place of a shard that is not loaded.
    ///
    /// # Panics
    /// If the shard already serves.
    pub fn adopt(&mut self, shard: usize, loader: Shard) {
        let live = self.status[shard].active;
        assert!(!live, "shard {shard} is live: drop it before another takes its place");
        assert_eq!(loader.config(), &self.config, "a loader of another node");
        self.shards[shard] = loader;
    }

    /// The shard's log is read to its end; it serves from now on.
    ///
    /// # Panics
    /// If the shard serves already.
    pub fn loaded(&mut self, shard: usize, now_ms: i64, next_offset: i64) {
        assert!(!self.status[shard].active, "shard {shard} is loaded already");
        self.shards[shard].tell_events(self.tells_events);
        self.hand_out_of(shard);
        self.shards[shard].handle_group_configs(&self.group_configs);
        self.shards[shard].loaded(now_ms, next_offset);
        // Its timers run from now on: what is due when the next turn comes goes first there too.
        let timeout_ms = self.shards[shard].poll_timeout().unwrap_or(i64::MAX);
        self.status[shard] = Status { active: true, touched: true, timeout_ms, ..LOADING };
        self.has_news = true;
    }

    /// The shard's log failed: what it owes is answered NOT_COORDINATOR, its state is forgotten,
    /// and it waits for `replay` and `loaded` as at the start.
    pub fn drop_shard(&mut self, shard: usize) -> Turn {
        let fresh = Shard::new(self.config.clone());
        let mut dropped = std::mem::replace(&mut self.shards[shard], fresh);
        self.dropped.add(dropped.counters());
        self.status[shard] = LOADING;
        self.targets.forget(shard);
        self.holding.lose(shard);
        // Its groups will have other rows.
        let of_shard = self.deleted.iter_mut().filter(|(of, ..)| *of == shard);
        of_shard.for_each(|(.., from)| *from = Sweep::default());
        let mut turn = Turn::default();
        while let Some((ticket, response)) = dropped.poll_response() {
            self.answer(ticket, response, &mut turn);
        }
        for (ticket, response) in dropped.drop_parked() {
            self.answer(ticket, response, &mut turn);
        }
        // The end of each turn has given its events their time.
        turn.take_events(shard, std::iter::from_fn(|| dropped.poll_event(0)));
        turn.next_timeout_ms = self.next_timeout_ms();
        turn
    }

    /// Says of a shard that does not serve whether another node leads it (its requests hear
    /// NOT_COORDINATOR, and ListGroups leaves it out) or it is being loaded here.
    ///
    /// # Panics
    /// If the shard serves: drop it first.
    pub fn set_away(&mut self, shard: usize, away: bool) {
        assert!(!self.status[shard].active, "shard {shard} is live: drop it before it goes away");
        self.status[shard].away = away;
    }
}
