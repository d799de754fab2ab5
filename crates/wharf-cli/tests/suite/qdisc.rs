//! `--qdisc fq_codel` and `edt`, as a user runs it: on each device that needs no privilege, with marks, drops by reason and statistics.

use crate::common::{Folder, SAMPLE, SAMPLE_FRAMES, text, wharf};
use serde_json::Value;

fn run(arguments: &str) -> Value {
    let all: Vec<&str> = arguments.split(' ').chain(["--json"]).collect();
    let done = wharf(&all);
    assert_eq!(done.code, Some(0), "{arguments}: {done:?}");
    done.json()
}

fn number(run: &Value, path: &str) -> u64 {
    run.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no number at {path}: {run}"))
}

#[test]
fn fq_codel_sends_everything_to_each_device() {
    let folder = Folder::new();
    let file = format!("pcap:{}", text(&folder.path("out.pcap")));
    for to in ["null", "wire", "wire:rate=1gbit,ring=16", file.as_str()] {
        let done =
            run(&format!("send --size 200 --senders 3 --flows 40 --count 6000 --qdisc fq_codel --to {to}"));
        // A busy machine may hold the wire up for longer than an interval.
        assert_eq!(number(&done, "/packets") + number(&done, "/drops/total"), 6000, "{to}");
        assert_eq!(number(&done, "/drops/total"), number(&done, "/qdisc/codel_drops"), "{to}");
        assert_eq!((&done["qdisc"]["name"], number(&done, "/qdisc/marked")), (&"fq_codel".into(), 0), "{to}");
    }
    let done = run(&format!("send --pcap {SAMPLE} --loop 4 --senders 3 --qdisc fq_codel"));
    let packets = number(&done, "/packets") + number(&done, "/qdisc/codel_drops");
    assert_eq!((packets, number(&done, "/received/errors")), (4 * SAMPLE_FRAMES, 0), "{done}");
    assert_eq!(run("send --size 60 --count 100")["qdisc"], serde_json::json!({"name": "fifo"}));
}

/// A wire of 20 Mbit/s, and two flows that fill more of the discipline than its target allows.
#[test]
fn a_standing_queue_is_marked_if_capable_and_else_dropped_from() {
    let slow =
        "send --size 1514 --senders 2 --count 3000 --frames 2000 --small-queues off --to wire:rate=50mbit";
    let keeps = "--qdisc fq_codel:target=1ms,interval=5ms";
    for (traffic, marks) in [("--tos 0x02", true), ("--tos 0", false), ("--tos 2 --qdisc fq_codel", true)] {
        let keeps = if traffic.contains("--qdisc") { "" } else { keeps };
        let done = run(format!("{slow} {traffic} {keeps}").trim());
        let (marked, dropped) = (number(&done, "/qdisc/marked"), number(&done, "/qdisc/codel_drops"));
        assert_eq!((marked > 0, dropped > 0), (marks, !marks), "{done}");
        assert_eq!(number(&done, "/drops/total"), dropped, "{done}");
        assert_eq!(done["drops"]["by_reason"].get("codel").and_then(Value::as_u64).unwrap_or(0), dropped);
        assert_eq!(number(&done, "/packets") + dropped, 3000, "{done}");
        assert_eq!((number(&done, "/received/errors"), number(&done, "/pool/out")), (0, 0), "{done}");
    }
}

#[test]
fn the_limit_drops_with_a_reason_of_its_own() {
    let slow = "send --size 1000 --senders 2 --count 3000 --to wire:rate=100mbit --when-full drop-head";
    let done = run(&format!("{slow} --qdisc fq_codel:limit=16,interval=10s"));
    let dropped = number(&done, "/drops/by_reason/overlimit");
    assert!(dropped > 100, "{done}");
    assert_eq!((number(&done, "/drops/total"), number(&done, "/qdisc/overlimit_drops")), (dropped, dropped));
}

#[test]
fn a_bucket_goes_before_fq_codel() {
    let done = run(&format!("forward pcap:{SAMPLE} null --rate 100mbit --qdisc fq_codel:flows=64"));
    let direction = &done["directions"][0];
    assert_eq!(number(direction, "/packets") + number(direction, "/drops/total"), SAMPLE_FRAMES, "{done}");
    assert_eq!(direction["qdisc"]["name"], "fq_codel");
    assert!(number(direction, "/qdisc/new_flows") > 0, "{done}");
}

/// Packets of the command have no times of their own: each leaves at once.
#[test]
fn edt_sends_everything_in_order_and_drops_beyond_the_limit_of_a_flow() {
    for to in ["null", "wire", "wire:rate=1gbit,ring=16"] {
        let edt = "edt:horizon=2s,limit=500";
        let done =
            run(&format!("send --size 200 --senders 3 --flows 40 --count 6000 --qdisc {edt} --to {to}"));
        assert_eq!((number(&done, "/packets"), number(&done, "/drops/total")), (6000, 0), "{to}");
        assert_eq!(
            (&done["qdisc"]["name"], number(&done, "/qdisc/backlog_packets")),
            (&"edt".into(), 0),
            "{to}"
        );
    }
    let slow = "send --size 1000 --senders 2 --count 3000 --to wire:rate=100mbit";
    let done = run(&format!("{slow} --qdisc edt:flow-limit=4"));
    let dropped = number(&done, "/drops/by_reason/flow-full");
    assert!(dropped > 100, "{done}");
    assert_eq!(number(&done, "/packets") + dropped, 3000, "{done}");
    assert_eq!((number(&done, "/received/errors"), number(&done, "/pool/out")), (0, 0), "{done}");
}
