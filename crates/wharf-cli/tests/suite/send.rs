//! `wharf send`, as a user runs it.

use crate::common::{Folder, SAMPLE, SAMPLE_BYTES, SAMPLE_FRAMES, eventually, refusing_port, text, wharf};
use serde_json::Value;
use std::path::Path;
use wharf_devices::pcap::format::PcapReader;

const KEYS: [&str; 22] = [
    "device",
    "seconds",
    "packets",
    "bytes",
    "sent",
    "failed",
    "mpps",
    "gbps",
    "batches",
    "doorbells",
    "packets_per_doorbell",
    "requeues",
    "drops",
    "bql",
    "latency_ns",
    "latency_by_dscp",
    "timing_error_ns",
    "senders",
    "pool",
    "received",
    "returned",
    "compare",
];

fn number(run: &Value, path: &str) -> u64 {
    run.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no number at {path}: {run}"))
}

/// Nothing lost, nothing wrong, nothing left behind.
#[track_caller]
fn assert_whole(run: &Value) {
    assert!(number(run, "/packets") > 0, "{run}");
    assert_eq!(
        (number(run, "/drops/total"), number(run, "/pool/out"), number(run, "/returned")),
        (0, 0, 0),
        "{run}"
    );
    let senders = run["senders"].as_array().unwrap();
    assert_eq!(
        senders.iter().map(|sender| number(sender, "/packets")).sum::<u64>(),
        number(run, "/packets"),
        "{run}"
    );
    if run["device"] == "wire" {
        assert_eq!(number(run, "/received/packets"), number(run, "/packets"), "{run}");
        assert_eq!(number(run, "/received/bytes"), number(run, "/bytes"), "{run}");
        assert_eq!(number(run, "/received/errors"), 0, "{run}");
    }
}

/// Runs `wharf send ... --json`, which must go well.
#[track_caller]
fn send(args: &str) -> Value {
    let mut all = vec!["send", "--json"];
    all.extend(args.split_whitespace());
    let run = wharf(&all).good_json();
    assert_whole(&run);
    run
}

#[test]
fn the_default_run_compares_batching_with_none() {
    let run = wharf(&["send", "--pcap", SAMPLE, "--seconds", "0.2", "--json"]).good_json();
    assert_whole(&run);
    for key in KEYS {
        assert!(run.get(key).is_some(), "{key} is missing: {run}");
    }
    assert_eq!((&run["bql"]["enabled"], &run["latency_ns"]), (&Value::Bool(true), &Value::Null));
    assert!(number(&run, "/bql/limit_bytes") > 0, "{run}");
    assert_eq!(number(&run, "/doorbells"), number(&run, "/batches"), "{run}");
    assert!(run["packets_per_doorbell"].as_f64() > Some(1.0), "{run}");
    assert_eq!(run["compare"]["batching_off"]["packets_per_doorbell"], 1.0, "{run}");
    assert!(run["compare"]["batching_off"]["mpps"].as_f64() > Some(0.0), "{run}");
    for key in ["packets", "waits", "drops", "drained_packets"] {
        number(&run["senders"][0], &format!("/{key}"));
    }
}

#[test]
fn the_summary_is_for_people() {
    let done = wharf(&["send", "--pcap", SAMPLE, "--seconds", "0.05"]);
    assert_eq!((done.code, &done.news()[..]), (Some(0), &[][..]));
    for part in [
        "packet rate",
        "packets per doorbell",
        "byte queue limit",
        "dropped",
        "Every frame arrived byte for byte",
        "\nWith batching on:\n",
    ] {
        assert!(done.stdout.contains(part), "{part}: {}", done.stdout);
    }
    // A command is not broken.
    let mut lines = done.stdout.lines().filter(|line| !line.starts_with("Next: "));
    assert!(lines.all(|line| line.len() <= 100), "{}", done.stdout);
}

/// A program that reads the table gets plain digits, and a slow replay a rate that can be read.
#[test]
fn numbers_are_plain_and_rates_in_fitting_units() {
    let to = ["send", "--size", "60", "--count", "2000", "--to", "null"];
    let row = |shown: &str, name: &str| {
        let line = shown.lines().find(|line| line.starts_with(name));
        line.unwrap_or_else(|| panic!("{name}: {shown}"))[name.len()..].trim().to_string()
    };
    let fast = wharf(&to).stdout;
    assert_eq!((row(&fast, "sent"), row(&fast, "bit rate").contains("bit/s")), ("2000".into(), true));
    assert!(!fast.contains("batching"), "a heading is for a comparison: {fast}");
    let slow = wharf(&["send", "--size", "60", "--count", "50", "--rate", "500pps"]).stdout;
    let (packets, bits) = (row(&slow, "packet rate"), row(&slow, "bit rate"));
    let number: f64 = packets.split(' ').next().unwrap().parse().unwrap();
    assert!(number >= 1.0 && packets.ends_with("pps"), "{slow}");
    assert!(bits.ends_with("bit/s") && !bits.starts_with("0.0"), "{slow}");
}

#[test]
fn a_capture_is_repeated_as_often_as_asked() {
    let run = send(&format!("--pcap {SAMPLE} --loop 3"));
    assert_eq!((number(&run, "/packets"), number(&run, "/bytes")), (3 * SAMPLE_FRAMES, 3 * SAMPLE_BYTES));
    assert_eq!(run["compare"], Value::Null);
}

#[test]
fn generated_packets_of_every_shape_arrive() {
    for (shape, bytes) in [
        ("--size 60", 60_000),
        ("--size 64 --vlan 100", 64_000),
        ("--size 80 --src 2001:db8::7", 80_000),
        ("--size 1514 --dst 2001:db8::7 --vlan 4094", 1_514_000),
        ("--size 61 --flows 100 --mac 02:00:00:00:00:0a,02:00:00:00:00:0b", 61_000),
        ("--src 10.0.0.1 --dst 10.0.0.2", 60_000),
    ] {
        let run = send(&format!("{shape} --count 1k"));
        assert_eq!((number(&run, "/packets"), number(&run, "/bytes")), (1000, bytes), "{shape}");
        assert!(number(&run, "/latency_ns/p50") <= number(&run, "/latency_ns/p999"), "{run}");
    }
    let run = send("--imix --count 1200");
    assert_eq!(number(&run, "/bytes"), 100 * (7 * 60 + 4 * 590 + 1514));
}

#[test]
fn several_senders_share_the_work_and_keep_their_order() {
    let on_one = format!("--cpu {}", wharf_devices::host::processors()[0]);
    for how in [
        "",
        "--qdisc prio",
        "--qdisc fifo:16",
        "--qdisc fifo:8k",
        "--qdisc fq_codel:interval=10s",
        "--batch off",
        "--batch bytes=3000",
        on_one.as_str(),
    ] {
        let run = send(&format!("--size 60 --senders 3 --flows 7 --count 10000 {how}"));
        let shares: Vec<u64> = (0..3).map(|at| number(&run, &format!("/senders/{at}/packets"))).collect();
        assert_eq!(shares, [3334, 3333, 3333], "{how}");
        let run = send(&format!("--pcap {SAMPLE} --loop 4 --senders 3 {how}"));
        assert_eq!(number(&run, "/packets"), 4 * SAMPLE_FRAMES, "{how}");
        assert!((0..3).all(|at| number(&run, &format!("/senders/{at}/packets")) > 0), "{run}");
    }
}

#[test]
fn batching_is_as_asked() {
    let run = send(&format!("--pcap {SAMPLE} --loop 5 --batch off"));
    assert_eq!(
        (number(&run, "/doorbells"), &run["packets_per_doorbell"]),
        (5 * SAMPLE_FRAMES, &Value::from(1.0))
    );
    // A thousand bytes and one packet past them.
    let run = send("--size 100 --count 10000 --batch bytes=1000 --to null");
    assert!(run["packets_per_doorbell"].as_f64() <= Some(11.0), "{run}");
}

#[test]
fn paced_run_sends_all_packets() {
    for pace in ["--rate 100kpps", "--rate 1gbit", "--rate 50kpps --senders 2 --burst 1"] {
        assert_eq!(number(&send(&format!("--size 60 --count 2000 {pace}")), "/packets"), 2000, "{pace}");
    }
    assert_eq!(
        number(&send(&format!("--pcap {SAMPLE} --speed 200kpps --senders 2")), "/packets"),
        SAMPLE_FRAMES
    );
}

#[test]
fn a_small_pool_and_a_slow_wire_only_make_senders_wait() {
    assert_eq!(number(&send("--size 60 --count 3000 --frames 1"), "/packets"), 3000);
    assert_eq!(number(&send("--size 60 --count 3000 --senders 4 --frames 8"), "/packets"), 3000);
    assert_eq!(
        number(&send("--size 60 --count 500 --to wire:rate=10mbit,ring=4,delay=1ms"), "/packets"),
        500
    );
}

fn frames_of(path: &Path) -> Vec<Vec<u8>> {
    let (mut reader, mut frame) = (PcapReader::open(path).unwrap(), Vec::new());
    let mut frames = Vec::new();
    while reader.next(&mut frame).unwrap().is_some() {
        frames.push(frame.clone());
    }
    frames
}

#[test]
fn a_capture_written_equals_the_one_read() {
    let folder = Folder::new();
    for batch in ["on", "off", "bytes=4000"] {
        let out = folder.path("out.pcap");
        let run = send(&format!("--pcap {SAMPLE} --batch {batch} --to pcap:{}", text(&out)));
        assert_eq!((number(&run, "/packets"), &run["received"]), (SAMPLE_FRAMES, &Value::Null));
        assert!(frames_of(&out) == frames_of(Path::new(SAMPLE)), "batch {batch}: the frames differ");
    }
}

#[test]
fn a_device_that_cannot_write_is_a_failure_in_one_line() {
    let done = wharf(&["send", "--pcap", SAMPLE, "--to", "pcap:/dev/full", "--json"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.line().contains("/dev/full"), "{done:?}");
}

#[test]
fn frames_too_long_for_memory_name_the_size_that_would_do() {
    let done = wharf(&["send", "--pcap", SAMPLE, "--frame-bytes", "1024"]);
    assert_eq!(done.code, Some(1));
    assert!(done.line().contains("--frame-bytes 2048 would do"), "{done:?}");
    let done = wharf(&["send", "--size", "9000", "--count", "10", "--frame-bytes", "2k"]);
    let advice = done.line().split("--frame-bytes ").nth(1).unwrap().split(' ').next().unwrap();
    let run = send(&format!("--size 9000 --count 10 --frame-bytes {advice}"));
    assert_eq!(number(&run, "/bytes"), 90_000);
    assert_eq!(
        number(&send("--size 65535 --count 10"), "/bytes"),
        655_350,
        "and is taken unless another is given"
    );
}

#[test]
fn a_pace_comes_with_its_timing_error_and_top_speed_without() {
    for args in ["--size 60 --rate 20kpps --count 500", "--size 60 --rate 5mbit --count 500 --to null"] {
        let run = send(args);
        let at = |name: &str| number(&run, &format!("/timing_error_ns/{name}"));
        assert!(0 < at("p50") && at("p50") <= at("p99") && at("p99") <= at("max"), "{args}: {run}");
    }
    assert_eq!(send("--size 60 --count 500")["timing_error_ns"], Value::Null);
    let done = wharf(&["send", "--size", "60", "--count", "50", "--rate", "10kpps"]);
    assert!(done.stdout.contains("timing error p99"), "{}", done.stdout);
}

/// A device far slower than its senders: what is dropped is counted by reason, and what is not arrives.
#[test]
fn drops_of_a_full_queue_are_counted_by_reason() {
    for policy in ["drop-tail", "drop-head"] {
        let slow = ["send", "--json", "--count", "20000", "--senders", "2", "--qdisc", "fifo:16"];
        let run = wharf(&[&slow[..], &["--to", "wire:rate=1mbit,ring=16", "--when-full", policy]].concat());
        let run = run.good_json();
        let dropped = number(&run, "/drops/total");
        assert!(dropped > 1000, "{run}");
        assert_eq!(number(&run, &format!("/drops/by_reason/{policy}")), dropped, "{run}");
        assert_eq!(number(&run, "/packets") + dropped, 20_000, "{run}");
        assert_eq!(number(&run, "/received/packets"), number(&run, "/packets"), "{run}");
        assert_eq!((number(&run, "/received/errors"), number(&run, "/pool/out")), (0, 0), "{run}");
        let at_senders: u64 = (0..2).map(|at| number(&run, &format!("/senders/{at}/drops"))).sum();
        assert_eq!(at_senders, if policy == "drop-tail" { dropped } else { 0 }, "{run}");
        assert_eq!(number(&run, "/sent"), number(&run, "/packets"), "{run}");
        for failed in ["/failed", "/queues/0/failed"] {
            assert_eq!(number(&run, failed), dropped - at_senders, "{run}");
        }
    }
}

#[test]
fn a_sparse_flow_of_the_first_band_goes_beside_the_others_and_ends_with_them() {
    // More than the discipline holds, so that the others wait for the wire, and do not end at once.
    let bulk =
        "--size 200 --count 3000 --senders 2 --small-queues off --to wire:rate=5mbit,ring=16 --qdisc prio";
    let run = send(&format!("{bulk} --priority-rate 200pps"));
    assert_whole(&run);
    let (senders, classes) = (run["senders"].as_array().unwrap(), run["latency_by_dscp"].as_array().unwrap());
    let packets: Vec<u64> = senders.iter().map(|sender| number(sender, "/packets")).collect();
    assert_eq!(packets[..2], [1500, 1500], "--count is for the others");
    assert!(packets.len() == 3 && packets[2] > 0, "{packets:?}");
    let found: Vec<[u64; 3]> =
        classes.iter().map(|class| ["/dscp", "/band", "/packets"].map(|path| number(class, path))).collect();
    assert_eq!(found, [[0, 1, 3000], [4, 0, packets[2]]]);
}

#[test]
fn the_sparse_flow_has_a_port_of_its_own() {
    let folder = Folder::new();
    let path = text(&folder.path("out.pcap"));
    send(&format!("--size 60 --rate 1kpps --count 100 --flows 8 --priority-rate 500pps --to pcap:{path}"));
    let capture = std::fs::read(path).unwrap();
    // Records of 16 bytes of header and 60 of frame.
    let of_band = |tos: u8| -> std::collections::BTreeSet<&[u8]> {
        let frames = capture[24..].chunks(76).map(|record| &record[16..]);
        frames.filter(|frame| frame[15] == tos).map(|frame| &frame[34..36]).collect()
    };
    let (bulk, sparse) = (of_band(0), of_band(0x10));
    assert_eq!((bulk.len(), sparse.len()), (8, 1));
    assert!(bulk.is_disjoint(&sparse), "{bulk:?} {sparse:?}");
}

#[test]
fn the_byte_limit_is_off_or_within_its_bounds_on_request() {
    let traffic = "--size 1000 --count 2000 --to wire:rate=1gbit";
    let off = send(&format!("{traffic} --bql off"));
    assert_eq!((&off["bql"]["enabled"], number(&off, "/bql/limit_bytes")), (&Value::Bool(false), 0));
    let small = send(&format!("{traffic} --bql max=2k"));
    assert!(number(&small, "/bql/limit_bytes") <= 2048, "{small}");
    let large = send(&format!("{traffic} --bql min=1m"));
    assert!(number(&large, "/bql/limit_bytes") >= 1 << 20, "{large}");
    [off, small, large].iter().for_each(assert_whole);
}

#[test]
fn super_packets_count_as_one_until_they_are_cut() {
    // 44 packets of 1472 bytes of payload would be more than 64 KiB with their headers; 16 KiB are 11.
    let run = send("--size 1514 --gso 16k --count 112 --to null");
    assert_eq!((number(&run, "/packets"), number(&run, "/bytes")), (11, 112 * 1472 + 11 * 42));
    assert_whole(&run);
}

#[test]
fn a_missing_interface_is_told_to_a_sender_without_an_end() {
    let done = wharf(&["send", "--size", "60", "--to", "packet:nowhere"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.line().contains("packet:nowhere: no such interface"), "{done:?}");
}

/// Few enough for one call: no other one follows whose answer would tell.
#[test]
fn refused_datagrams_are_reported_even_if_few() {
    let (_refuses, gone) = refusing_port();
    for count in ["1", "10", "64"] {
        let to = format!("udp:{gone}");
        let args = ["send", "--size", "60", "--count", count, "--to", &to, "--json"];
        // The kernel refuses silently after too many ICMP messages of any program: `icmp_msgs_per_sec`.
        let done = eventually(|| {
            let done = wharf(&args);
            if done.code == Some(0) { Err(format!("{done:?}")) } else { Ok(done) }
        });
        assert!(
            done.code == Some(1) && done.line().contains("no program listens there"),
            "{count}: {done:?}"
        );
        // Each call's datagrams are one segmented send, of which the kernel reports each datagram, or the first.
        let run = done.json();
        let refused = &run["drops"]["by_reason"]["connection-refused"];
        assert!(refused.as_u64() >= Some(1) && *refused == run["drops"]["total"], "{run}");
        let (sent, failed) = (run["sent"].as_u64().unwrap(), run["failed"].as_u64().unwrap());
        assert_eq!((&run["packets"].to_string()[..], &failed), (count, &refused.as_u64().unwrap()));
        assert_eq!((sent + failed).to_string(), count);
    }
}

#[test]
fn the_summary_shows_drops_by_reason() {
    let run = wharf(&["send", "--size", "60", "--count", "100", "--fault", "error=1/10", "--to", "null"]);
    let shows = |line: &str| line.starts_with("by reason") && line.ends_with("injected 10");
    assert!(run.code == Some(0) && run.stdout.lines().any(shows), "{run:?}");
}
