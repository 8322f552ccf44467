//! Nanoseconds per heartbeat and bytes per group: one-member Stable groups with their session
//! timers, heartbeats in random order through `handle_batch`.
//!
//! `cargo run --release -p kcoord-bench --example heartbeats [groups] [batch]`
//!
//! Bytes are those of the allocator: each allocation counts as glibc keeps it, with its header and
//! rounded to 16.

#![allow(clippy::print_stdout)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use kcoord_core::request::*;
use kcoord_core::response::Response;
use kcoord_core::{Config, ErrorCode, Shard};

struct Counting;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);

/// What glibc takes for an allocation on a 64-bit machine.
fn footprint(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(footprint(layout), Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(footprint(layout), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const START_MS: i64 = 1_700_000_000_000;
/// Long enough for the scheduler's account, which moves in steps of some milliseconds.
const ROUNDS: usize = 40;

type Clock = std::time::Instant;

fn now() -> Clock {
    Clock::now()
}

/// Nanoseconds that this thread has had of a processor, where the system tells.
fn processor_ns() -> Option<u64> {
    let account = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    account.split_whitespace().next()?.parse().ok()
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let group_count: usize = arguments.next().unwrap_or(100_000);
    let batch_size: usize = arguments.next().unwrap_or(256);

    let before = LIVE_BYTES.load(Ordering::Relaxed);
    let mut shard = Shard::new(Config { group_initial_rebalance_delay_ms: 0, ..Config::default() });
    shard.loaded(START_MS, 0);
    let member_ids = make_groups(&mut shard, group_count);
    let own_ids: usize = member_ids.iter().map(|_| footprint(Layout::new::<[u8; 53]>())).sum();
    let list = footprint(Layout::array::<String>(group_count).unwrap());
    let bytes = LIVE_BYTES.load(Ordering::Relaxed) - before - own_ids - list;
    println!("{group_count} groups: {} bytes each, all in", bytes / group_count);

    let group_ids: Vec<String> = (0..group_count).map(group_id).collect();
    let order = shuffled(group_count);
    let ids = order.iter().map(|index| (group_ids[*index].as_str(), member_ids[*index].as_str()));
    let requests: Vec<_> = ids.map(|(group, member)| heartbeat(group, member)).collect();
    for (name, staged) in [("one by one", false), ("in batches", true)] {
        run(&mut shard, START_MS, &requests, batch_size, staged);
        let (start, start_ns) = (now(), processor_ns());
        for round in 0..ROUNDS {
            run(&mut shard, START_MS + round as i64, &requests, batch_size, staged);
        }
        let wall_ns = start.elapsed().as_nanos() as u64;
        let used_ns = processor_ns().zip(start_ns).map_or(wall_ns, |(end, start)| end - start);
        let each = |ns: u64| ns as f64 / (ROUNDS * group_count) as f64;
        println!(
            "{name}: {:.1} ns of processor time a heartbeat, {:.2} M/s ({:.1} ns elapsed)",
            each(used_ns),
            1_000.0 / each(used_ns),
            each(wall_ns)
        );
    }
}

fn run(
    shard: &mut Shard,
    now_ms: i64,
    requests: &[(RequestContext<'_>, Request<'_>)],
    batch_size: usize,
    staged: bool,
) {
    for batch in requests.chunks(batch_size) {
        if staged {
            shard.handle_batch(now_ms, batch);
        } else {
            for (context, request) in batch {
                shard.handle_request(now_ms, context, request);
            }
        }
        while let Some((_, response)) = shard.poll_response() {
            assert!(response == Response::Heartbeat(ErrorCode::None));
        }
    }
}

/// Stable groups by the way of real consumers, some at a time, and their members' ids.
fn make_groups(shard: &mut Shard, group_count: usize) -> Vec<String> {
    let mut member_ids = Vec::with_capacity(group_count);
    let all: Vec<usize> = (0..group_count).collect();
    for some in all.chunks(256) {
        for index in some {
            let group_id = group_id(*index);
            shard.handle_request(START_MS, &context(*index), &Request::JoinGroup(join(&group_id)));
        }
        commit(shard);
        shard.handle_timeout(START_MS);
        for index in some {
            let Some((_, Response::JoinGroup(joined))) = shard.poll_response() else {
                panic!("group {index} has not joined");
            };
            let member_id = String::from(joined.member_id);
            sync(shard, *index, &member_id);
            member_ids.push(member_id);
        }
        commit(shard);
        while shard.poll_response().is_some() {}
    }
    member_ids
}

fn sync(shard: &mut Shard, index: usize, member_id: &str) {
    let request = SyncGroupRequest {
        group_id: &group_id(index),
        generation_id: 1,
        member_id,
        group_instance_id: None,
        protocol_type: Some("consumer"),
        protocol_name: Some("range"),
        assignments: vec![SyncGroupAssignment { member_id, assignment: &[7; 48] }],
    };
    shard.handle_request(START_MS, &context(index), &Request::SyncGroup(request));
}

fn commit(shard: &mut Shard) {
    while let Some(append) = shard.poll_append() {
        shard.handle_committed(START_MS, append.end_offset());
    }
}

fn group_id(index: usize) -> String {
    format!("orders-app-{index:07}")
}

fn context(index: usize) -> RequestContext<'static> {
    RequestContext {
        ticket: index as Ticket,
        api_version: 3,
        client_id: "orders-service-1",
        client_host: "/127.0.0.1",
        uuid: (index as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835),
    }
}

fn join(group_id: &str) -> JoinGroupRequest<'_> {
    JoinGroupRequest {
        group_id,
        session_timeout_ms: 45_000,
        rebalance_timeout_ms: 300_000,
        member_id: "",
        group_instance_id: None,
        protocol_type: "consumer",
        protocols: vec![JoinGroupProtocol { name: "range", metadata: &[1; 64] }],
        reason: None,
    }
}

fn heartbeat<'a>(group_id: &'a str, member_id: &'a str) -> (RequestContext<'a>, Request<'a>) {
    let request =
        HeartbeatRequest { group_id, generation_id: 1, member_id, group_instance_id: None };
    (context(0), Request::Heartbeat(request))
}

/// A fixed random order (Fisher-Yates over xorshift).
fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for index in (1..count).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(index, state as usize % (index + 1));
    }
    order
}
