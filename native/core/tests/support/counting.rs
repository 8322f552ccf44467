//! An allocator that counts what is held, and the most that was. For a program of one test, or of
//! none: it counts for everybody.

#![allow(clippy::disallowed_types)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct Counting;

/// Bytes that are allocated now.
static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// Sound: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(held, Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `work` returned, the most bytes that it held at a time, and how many are held after it.
pub fn counted<T>(work: impl FnOnce() -> T) -> (T, usize, usize) {
    let before = HELD.load(Relaxed);
    MOST.store(before, Relaxed);
    let value = work();
    let (most, held) = (MOST.load(Relaxed), HELD.load(Relaxed));
    (value, most - before, held.saturating_sub(before))
}
