//! Frames that are not served: they touch nothing else of their turn.

use kcoord_core::ErrorCode;
use kcoord_node::Frame;
use kcoord_wire::api::ResponseBody;

use crate::ask::*;
use crate::host::{Host, frame};

const METADATA: [u8; 10] = [0, 3, 0, 9, 0, 0, 0, 77, 0xff, 0xff];

#[test]
fn foreign_and_invalid_frames_touch_nothing_else() {
    let mut host = Host::new(50);
    let member = stable(&mut host, "g");
    let beat = frame(4, &heartbeat("g", &member, 1));
    let cut = frame(9, &commit("g", &[("t", 0, &[1, 2, 3])]));
    let mut newer = beat.clone();
    newer[3] = 99;
    let frames = [
        beat.clone(),
        METADATA.to_vec(),
        cut[..cut.len() - 5].to_vec(),
        newer,
        Vec::new(),
        vec![0, 12],
        beat,
    ];
    let tickets = host.send_frames(&frames);
    assert_eq!(host.foreign, [tickets[1]]);
    let invalid: Vec<u64> = host.invalid.iter().map(|(ticket, _)| *ticket).collect();
    assert_eq!(invalid, tickets[2..6]);
    let reasons: Vec<&str> = host.invalid.iter().map(|(_, reason)| &**reason).collect();
    assert!(reasons[0].starts_with("OffsetCommit v9: "), "{reasons:?}");
    assert_eq!(reasons[1], "API key 12 is not served at version 99");
    assert!(reasons[2].starts_with("request header: "), "{reasons:?}");
    for ticket in [tickets[0], tickets[6]] {
        assert_eq!(host.take(ticket), ResponseBody::Heartbeat(ErrorCode::None));
    }
    let (_, _, topics) = fetched(host.ask(9, &fetch(&[("g", None)]))).remove(0);
    assert!(topics.is_empty(), "nothing of the cut commit was applied");
}

#[test]
fn a_member_id_tells_who_and_no_two_are_alike() {
    let mut host = Host::new(50);
    let (one, other) = host.apart();
    let ids = [stable(&mut host, &one), stable(&mut host, &other)];
    assert!(ids.iter().all(|id| id.starts_with("client-")), "{ids:?}");
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn timeouts_are_those_of_all_shards() {
    let mut host = Host::new(50);
    let (one, other) = host.apart();
    host.sleep(0);
    let retention_ms = host.next_timeout_ms.expect("expired offsets are looked for");
    stable(&mut host, &one);
    host.sleep(4_000);
    stable(&mut host, &other);
    let first_ms = host.next_timeout_ms.expect("two sessions");
    assert!(first_ms <= host.now_ms + 6_000 && first_ms < retention_ms);
    host.sleep(6_001);
    let states = described(host.ask(5, &describe(&[&one, &other])));
    assert_eq!((states[0].1, states[1].1), ("Empty", "Stable"));
}

#[test]
fn the_same_seed_and_inputs_give_the_same_bytes() {
    let run = || {
        let mut host = Host::new(7);
        let mut bytes = Vec::new();
        for round in 0..20u64 {
            let group = format!("g-{}", round % 5);
            let frames = [frame(3, &join(&group, "")), frame(5, &list())];
            let frames: Vec<Frame<'_>> = (2 * round..)
                .zip(&frames)
                .map(|(ticket, bytes)| Frame { ticket, session: &host.session, bytes })
                .collect();
            let turn = host.node.step(host.now_ms + round as i64, &frames, &[]);
            bytes.push(format!("{turn:?}"));
        }
        bytes
    };
    assert_eq!(run(), run());
}
