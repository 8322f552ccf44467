//! The codec from outside: Kafka's bytes, random values, hostile bytes, and what clients trip over.

mod bounds;
mod errors;
mod golden;
mod hostile;
mod long;
mod pitfalls;
mod random;
mod round_trip;
