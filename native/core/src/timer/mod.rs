//! A hierarchical timing wheel over plain milliseconds (spec/timers.md section 1).
//!
//! It knows no clock and calls nobody: time is moved by its owner, who then takes what is due.

mod level;
mod lines;
mod slab;
mod wheel;

pub use slab::TimerId;
pub use wheel::TimingWheel;
