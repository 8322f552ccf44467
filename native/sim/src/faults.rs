//! What can go wrong, and how often. A fault decides nothing about what it does: when it strikes is
//! drawn in `strikes.rs`.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Fault {
    /// A message takes seconds.
    Delay,
    /// A connection is lost, with what is under way in it.
    Drop,
    /// A sync takes long: much is written meanwhile.
    SlowDisk,
    /// An append fails half way.
    FullDisk,
    /// A sync fails: what of it is on the disk is unknown.
    SyncFails,
    /// The node is lost at once, and with it what was not synced.
    Crash,
    /// The write that a crash interrupts is half there.
    TornWrite,
    /// A bit of what a crash interrupts is wrong.
    FlippedTail,
    /// A bit of what was synced is read wrongly: the log must refuse.
    FlippedRead,
    /// A node is lost while it loads.
    CrashInLoad,
    /// The node does nothing for seconds.
    Pause,
    /// The clock jumps forward.
    ClockJump,
    /// The clock is set back while the node is down.
    ClockBack,
    TopicCreated,
    TopicDeleted,
    TopicGrown,
}

pub const FAULTS: [Fault; 16] = [
    Fault::Delay,
    Fault::Drop,
    Fault::SlowDisk,
    Fault::FullDisk,
    Fault::SyncFails,
    Fault::Crash,
    Fault::TornWrite,
    Fault::FlippedTail,
    Fault::FlippedRead,
    Fault::CrashInLoad,
    Fault::Pause,
    Fault::ClockJump,
    Fault::ClockBack,
    Fault::TopicCreated,
    Fault::TopicDeleted,
    Fault::TopicGrown,
];

impl Fault {
    pub const fn name(self) -> &'static str {
        match self {
            Fault::Delay => "delay",
            Fault::Drop => "drop",
            Fault::SlowDisk => "slow-disk",
            Fault::FullDisk => "full-disk",
            Fault::SyncFails => "sync-fails",
            Fault::Crash => "crash",
            Fault::TornWrite => "torn-write",
            Fault::FlippedTail => "flipped-tail",
            Fault::FlippedRead => "flipped-read",
            Fault::CrashInLoad => "crash-in-load",
            Fault::Pause => "pause",
            Fault::ClockJump => "clock-jump",
            Fault::ClockBack => "clock-back",
            Fault::TopicCreated => "topic-created",
            Fault::TopicDeleted => "topic-deleted",
            Fault::TopicGrown => "topic-grown",
        }
    }

    pub fn from_name(name: &str) -> Option<Fault> {
        FAULTS.into_iter().find(|fault| fault.name() == name)
    }

    /// Mean time between two strikes, in milliseconds, before the seed makes it rarer or more
    /// frequent. For a fault that strikes where something happens: one in so many of those.
    pub const fn interval_ms(self) -> i64 {
        match self {
            Fault::Delay => 100,
            Fault::Drop => 150,
            Fault::SlowDisk => 40,
            Fault::FullDisk | Fault::SyncFails => 250,
            Fault::TornWrite | Fault::FlippedTail => 2,
            Fault::FlippedRead | Fault::CrashInLoad | Fault::ClockBack => 4,
            Fault::Crash => 10_000,
            Fault::Pause => 15_000,
            Fault::ClockJump => 20_000,
            Fault::TopicCreated | Fault::TopicGrown => 12_000,
            Fault::TopicDeleted => 15_000,
        }
    }

    /// Whether it comes with time; the others strike where something happens.
    pub const fn is_timed(self) -> bool {
        matches!(
            self,
            Fault::Crash
                | Fault::Pause
                | Fault::ClockJump
                | Fault::TopicCreated
                | Fault::TopicDeleted
                | Fault::TopicGrown
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
