//! `wharf receive`, as a user runs it, from captures: what comes over a network is in tests/network.sh.

use crate::common::{Done, Folder, SAMPLE, SAMPLE_BYTES, SAMPLE_FRAMES, text, wharf};
use serde_json::Value;
use std::path::Path;
use wharf_devices::pcap::format::{PcapOptions, PcapReader, PcapWriter};

/// Time stamp and bytes of every packet.
fn packets(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let (mut reader, mut bytes, mut all) = (PcapReader::open(path).unwrap(), Vec::new(), Vec::new());
    while let Some(record) = reader.next(&mut bytes).unwrap() {
        assert_eq!(record.wire_len as usize, bytes.len());
        all.push((record.ts_ns, bytes.clone()));
    }
    all
}

fn write(path: &Path, packets: &[(u64, Vec<u8>)]) {
    let mut writer = PcapWriter::create(path, PcapOptions::default()).unwrap();
    for (ts_ns, bytes) in packets {
        writer.write(*ts_ns, [&bytes[..]], bytes.len() as u32).unwrap();
    }
    writer.finish().unwrap();
}

/// `wharf receive --from pcap:PATH --json`, and more.
fn receive(path: &Path, more: &[&str]) -> Done {
    let from = format!("pcap:{}", text(path));
    let done = wharf(&[&["receive", "--from", &from, "--json"], more].concat());
    assert_eq!(done.news()[0], format!("wharf: reading {from}"), "{done:?}");
    done
}

/// The line of the error, after the line that says what it reads.
fn fault(done: &Done) -> &str {
    let [_, fault] = done.news()[..] else { panic!("{done:?}") };
    fault
}

/// 600 packets of three senders, as `wharf send` makes them.
fn generated(folder: &Folder) -> Vec<(u64, Vec<u8>)> {
    let path = folder.path("generated.pcap");
    let to = format!("pcap:{}", text(&path));
    let args = ["send", "--imix", "--senders", "3", "--flows", "30", "--vlan", "9", "--count", "600"];
    wharf(&[&args[..], &["--to", &to, "--json"]].concat()).good_json();
    packets(&path)
}

fn counts(run: &Value) -> [u64; 5] {
    ["packets", "lost", "reordered", "duplicated", "unstamped"].map(|key| run[key].as_u64().unwrap())
}

#[test]
fn a_capture_arrives_as_it_is_with_its_times() {
    let folder = Folder::new();
    let out = folder.path("out.pcap");
    let done = receive(Path::new(SAMPLE), &["--pcap", &text(&out)]);
    let run = done.json();
    assert_eq!((done.code, done.news().len()), (Some(0), 1), "{done:?}");
    assert_eq!(counts(&run), [SAMPLE_FRAMES, 0, 0, 0, SAMPLE_FRAMES]);
    assert_eq!(
        (&run["bytes"], &run["drops"]["total"], &run["pool"]["out"]),
        (&SAMPLE_BYTES.into(), &0.into(), &0.into())
    );
    assert_eq!(run["latency_ns"], Value::Null, "no stamp, no latency");
    let all = packets(&out);
    assert!(all == packets(Path::new(SAMPLE)), "byte for byte and in time");
    let span_ns = all.last().unwrap().0 - all[0].0;
    assert!((run["seconds"].as_f64().unwrap() - span_ns as f64 / 1e9).abs() < 1e-3, "{run}");
}

#[test]
fn generated_packets_are_checked_by_sender() {
    let folder = Folder::new();
    let (all, path) = (generated(&folder), folder.path("in.pcap"));
    write(&path, &all);
    let done = receive(&path, &[]);
    let run = done.json();
    assert_eq!((done.code, counts(&run)), (Some(0), [600, 0, 0, 0, 0]), "{done:?}");
    assert!(run["latency_ns"]["p50"].as_u64() <= run["latency_ns"]["p999"].as_u64(), "{run}");
    assert!(run["latency_ns"]["p50"].is_u64(), "made and received on one machine: {run}");
    let streams = run["streams"].as_array().unwrap();
    assert!(streams.len() == 3 && streams.iter().all(|stream| stream["packets"] == 200), "{run}");
}

#[test]
fn loss_is_a_failure_and_repeats_and_disorder_are_counted() {
    let folder = Folder::new();
    let (mut all, path) = (generated(&folder), folder.path("in.pcap"));
    all.remove(10);
    all.drain(300..305);
    let twice = all[50].clone();
    all.insert(60, twice);
    write(&path, &all);
    let done = receive(&path, &[]);
    let run = done.json();
    assert_eq!((done.code, counts(&run)), (Some(1), [595, 6, 0, 1, 0]), "{done:?}");
    assert_eq!(fault(&done), "wharf: 6 of 600 generated packets were lost");

    // Nothing is lost, but one packet comes after all others of its sender, and one was not generated.
    let mut all = generated(&folder);
    let late = all.remove(0);
    all.push(late);
    all.push((1, vec![7; 60]));
    write(&path, &all);
    let done = receive(&path, &[]);
    let run = done.json();
    assert_eq!((done.code, counts(&run)), (Some(0), [601, 0, 1, 0, 1]), "{done:?}");
    // Which came long before all others: rates over those alone mind it not.
    let (all, generated) = (run["seconds"].as_f64().unwrap(), &run["generated"]);
    assert!(all > 1e6 && generated["seconds"].as_f64().unwrap() < 60.0, "{run}");
    let (bytes, all_bytes) = (generated["bytes"].as_u64().unwrap(), run["bytes"].as_u64().unwrap());
    assert_eq!((generated["packets"].as_u64(), bytes + 60), (Some(600), all_bytes), "{run}");
    assert!(generated["gbps"].as_f64() > run["gbps"].as_f64(), "{run}");
}

#[test]
fn a_count_ends_a_reception_exactly() {
    for count in ["1", "64", "65", "1000"] {
        let run = receive(Path::new(SAMPLE), &["--count", count]).json();
        assert_eq!(run["packets"], count.parse::<u64>().unwrap(), "{run}");
    }
}

#[test]
fn wrappers_go_around_the_receiving_device() {
    let folder = Folder::new();
    let trace = folder.path("trace.pcap");
    let faults = "seed=3,stall=5%:100us,alloc=2%";
    let done = receive(Path::new(SAMPLE), &["--fault", faults, "--trace", &text(&trace)]);
    let run = done.json();
    assert_eq!((done.code, counts(&run)[0]), (Some(0), SAMPLE_FRAMES), "{done:?}");
    assert!(run["faults"]["injected"]["alloc"].as_u64() > Some(0), "{run}");
    assert_eq!(run["trace"]["frames"], SAMPLE_FRAMES);
    assert!(packets(&trace) == packets(Path::new(SAMPLE)));
}

#[test]
fn the_summary_is_for_people() {
    let folder = Folder::new();
    let path = folder.path("in.pcap");
    write(&path, &generated(&folder));
    let done = wharf(&["receive", "--from", &format!("pcap:{}", text(&path))]);
    assert_eq!(done.code, Some(0));
    for part in
        ["packets", "lost", "latency p99", "198.51.100.1", "Every generated packet up to the last arrived"]
    {
        assert!(done.stdout.contains(part), "{part}: {}", done.stdout);
    }
}

/// Neighbour discovery long before the burst: the rate is over the burst.
#[test]
fn packets_of_hosts_themselves_are_told_apart() {
    let folder = Folder::new();
    let (mut all, path) = (generated(&folder), folder.path("in.pcap"));
    let mut solicitation = vec![2; 12];
    solicitation.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 24, 58, 255]);
    solicitation.extend([0xfe; 32]);
    solicitation.extend([135; 24]);
    let first_ns = all[0].0;
    all.insert(0, (first_ns - 10_000_000_000, solicitation));
    write(&path, &all);
    let run = receive(&path, &[]).json();
    assert_eq!((&run["host_packets"], &run["traffic"]["packets"]), (&1.into(), &600.into()), "{run}");
    assert!(run["seconds"].as_f64() > Some(9.9) && run["traffic"]["seconds"].as_f64() < Some(9.0), "{run}");
    let shown = wharf(&["receive", "--from", &format!("pcap:{}", text(&path))]).stdout;
    let row = |name: &str| shown.lines().find(|line| line.starts_with(name)).unwrap().trim_end().to_string();
    assert!(row("host protocols").ends_with(" 1"), "{shown}");
    assert!(!row("seconds").contains(" 10."), "{shown}");
}

#[test]
fn arrivals_before_a_failure_are_reported() {
    let folder = Folder::new();
    let sample = std::fs::read(SAMPLE).unwrap();
    let cut = folder.file("cut.pcap", &sample[..sample.len() - 1]);
    let done = receive(Path::new(&cut), &[]);
    assert_eq!((done.code, counts(&done.json())[0]), (Some(1), SAMPLE_FRAMES - 1), "{done:?}");
    assert!(fault(&done).contains("record cut short"), "{done:?}");
}

#[test]
fn impossible_receptions_give_one_line() {
    let folder = Folder::new();
    let file = folder.file("in.pcap", &std::fs::read(SAMPLE).unwrap());
    let from = format!("pcap:{file}");
    let missing = format!("pcap:{}", text(&folder.path("nothing")));
    let cases: [(&[&str], i32, &str); 8] = [
        (&["receive"], 2, "<DEVICE>"),
        (&["receive", "--from", "no"], 2, "unknown kind of device"),
        (&["receive", "--from", "wire"], 2, "nothing sends"),
        (&["receive", "--from", &from, "--count", "0"], 2, "a number from 1 on"),
        (&["receive", "--from", &from, "--pcap", &file], 2, "is read, and it is the same file"),
        (&["receive", "--from", &from, "--cpu", "100000"], 2, "may use processors"),
        (&["receive", "--from", &missing], 1, "cannot open"),
        (&["receive", "--from", &from, "--pcap", "/dev/full"], 1, "No space left"),
    ];
    for (args, code, what) in cases {
        let done = wharf(args);
        assert_eq!((done.code, done.stdout.as_str()), (Some(code), ""), "{args:?}: {done:?}");
        assert!(done.line().contains(what), "{args:?}: {done:?}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), std::fs::read(SAMPLE).unwrap());
}
