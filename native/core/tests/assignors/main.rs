//! Assignors against the results of the Java classes, and against the laws that each must keep.

mod laws;
mod levels;
mod vectors;
