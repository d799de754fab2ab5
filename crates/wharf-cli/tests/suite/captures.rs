//! Captures that are none: one line that names the file and the place, exit code 1, and no wait.

use crate::common::{Folder, SAMPLE, finish, signal, text, wharf};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

/// A good header: little-endian, microseconds, Ethernet.
fn header(snap_len: u32) -> Vec<u8> {
    let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend(snap_len.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes
}

/// A record that says so many bytes, and has `present` of them.
fn record(captured: u32, wire: u32, present: usize) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    bytes.extend(captured.to_le_bytes());
    bytes.extend(wire.to_le_bytes());
    bytes.resize(16 + present, 7);
    bytes
}

#[track_caller]
fn assert_refused(path: &str, what: &str) {
    let done = wharf(&["send", "--pcap", path, "--json"]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""), "{done:?}");
    assert!(done.line().contains(path) && done.line().contains(what), "{what}: {done:?}");
}

#[test]
fn malformed_files_are_refused_with_the_place() {
    let folder = Folder::new();
    let good = [header(65535), record(60, 60, 60)].concat();
    let cases: [(&str, Vec<u8>, &str); 7] = [
        ("empty", vec![], "byte 0: the file is empty"),
        ("magic", b"GET / HTTP/1.1 and more of it".to_vec(), "byte 0: not a pcap file"),
        ("header", header(65535)[..23].to_vec(), "byte 0: file header cut short"),
        ("no-record", header(65535), "no packet"),
        ("huge", [header(0), record(u32::MAX, u32::MAX, 60)].concat(), "byte 24: record of 4294967295 bytes"),
        (
            "xz",
            b"\xfd7zXZ\0 and more of it, and more".to_vec(),
            "xz: `xzcat FILE | wharf ...` reads it as `-`",
        ),
        (
            "pcapng",
            [&[0x0a, 0x0d, 0x0d, 0x0a], &[0; 40][..]].concat(),
            "byte 0: section without a byte order",
        ),
    ];
    for (name, bytes, what) in cases {
        assert_refused(&folder.file(name, &bytes), what);
    }
    // A record may be longer than the snap length, and a version 2.5 is read as a 2.4 is.
    let mut newer = [header(59), record(60, 60, 60)].concat();
    newer[6] = 5;
    for bytes in [good, newer] {
        let done = wharf(&["send", "--json", "--loop", "2", "--pcap", &folder.file("good", &bytes)]);
        assert_eq!(done.good_json()["packets"], 2);
    }
}

#[test]
fn a_sample_cut_before_the_end_of_its_first_frame_is_refused() {
    let (folder, sample) = (Folder::new(), std::fs::read(SAMPLE).unwrap());
    for len in [1, 4, 24 + 5, 24 + 16 + 3] {
        let path = folder.file("cut", &sample[..len]);
        assert_refused(&path, "byte ");
    }
}

#[test]
fn a_file_that_is_cut_or_damaged_is_sent_up_to_there_round_after_round() {
    let folder = Folder::new();
    let good = [header(65535), record(60, 60, 60), record(70, 70, 70)].concat();
    let cases = [
        ([1, 2, 3].to_vec(), "byte 186: record header cut short (3 of 16 bytes)"),
        (record(60, 60, 59), "byte 186: record cut short (59 of 60 captured bytes)"),
        (
            [record(262_145, 60, 60), record(60, 60, 60)].concat(),
            "byte 186: record of 262145 bytes is longer",
        ),
    ];
    for (rest, what) in cases {
        let path = folder.file("cut.pcap", &[&good[..], &rest].concat());
        for (rounds, more) in [("1", &[][..]), ("3", &[]), ("3", &["--senders", "2"])] {
            let args = ["send", "--pcap", &path, "--to", "null", "--json", "--loop", rounds];
            let done = wharf(&[&args[..], more].concat());
            let sent = 2 * rounds.parse::<u64>().unwrap();
            assert_eq!((done.code, &done.json()["sent"]), (Some(1), &sent.into()), "{done:?}");
            assert!(done.line().contains(&format!("cut.pcap: {what}")), "{done:?}");
        }
    }
    // A comparison of two runs has the fault once, too.
    let path = folder.file("cut.pcap", &[&good[..], &[0]].concat());
    let done = wharf(&["send", "--pcap", &path, "--seconds", "0.1", "--json"]);
    assert!(done.code == Some(1) && done.json()["compare"].is_object(), "{done:?}");
    assert_eq!(done.line().matches("byte 186").count(), 1, "{done:?}");
}

#[test]
fn no_directories_or_character_devices_are_opened() {
    let folder = Folder::new();
    assert_refused(&text(&folder.path("")), "is a directory");
    assert_refused(&text(&folder.path("nothing")), "cannot open");
    assert_refused("/dev/zero", "is a character device");
}

/// A file of so many records of 60,000 bytes, which are holes, and of `rest`. Returns its path.
fn large(folder: &Folder, records: u64, rest: &[u8]) -> String {
    let path = folder.file("large.pcap", &header(65535));
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let (head, len) = (record(60_000, 60_000, 0), 60_016);
    (0..records).for_each(|at| file.write_all_at(&head, 24 + at * len).unwrap());
    file.write_all_at(rest, 24 + records * len).unwrap();
    file.set_len(24 + records * len + rest.len() as u64).unwrap();
    path
}

/// Runs `wharf`, and returns the most memory that it had, in kB.
fn with_its_memory(args: &[&str]) -> (crate::common::Done, u64) {
    let mut shell = Command::new("sh");
    let measured = "\"$0\" \"$@\" & p=$!; most=0
        while now=$(sed -n 's/^VmHWM:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/$p/status) && [ -n \"$now\" ]; do most=$now; sleep 0.02; done
        wait $p; code=$?; echo \"most $most\" >&2; exit $code";
    shell.args(["-c", measured, env!("CARGO_BIN_EXE_wharf")]).args(args);
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let done = finish(shell.spawn().unwrap());
    let most = done.stderr.lines().find_map(|line| line.strip_prefix("most ")?.parse().ok());
    let most = most.unwrap_or_else(|| panic!("{done:?}"));
    (done, most)
}

#[test]
fn a_large_file_is_sent_round_after_round_in_little_memory() {
    let folder = Folder::new();
    let path = large(&folder, 5000, &record(61, 61, 61));
    let args = ["send", "--pcap", &path, "--loop", "2", "--json"];
    let (done, most_kb) = with_its_memory(&[&args[..], &["--to", "null"]].concat());
    assert_eq!((done.code, &done.json()["sent"]), (Some(0), &10_002.into()), "{done:?}");
    assert!(most_kb < 60_000, "300 MB took {most_kb} kB");
    let counted = wharf(&["send", "--pcap", &path, "--count", "5003", "--to", "null", "--json"]).good_json();
    assert_eq!(counted["bytes"], 5002 * 60_000 + 61);
    let done = wharf(&[&args[..], &["--to", "null", "--senders", "2"]].concat());
    assert!(done.code == Some(1) && done.line().contains("256 MiB that are kept in memory for --senders"));
    // At a far end all of it is compared, or said not to be.
    let path = large(&folder, 300, &record(61, 61, 61));
    let report = wharf(&["send", "--pcap", &path, "--loop", "2", "--json"]).good_json();
    assert_eq!((&report["received"]["packets"], &report["received"]["errors"]), (&602.into(), &0.into()));
    assert!(report["received"]["unchecked"].as_u64() < Some(602), "{report}");
}

#[test]
fn a_large_file_that_is_cut_is_sent_up_to_there_round_after_round_and_not_by_strict() {
    let folder = Folder::new();
    let cut = [record(61, 61, 61), record(60, 60, 59)].concat();
    for (records, at) in [(300, "byte 18004901"), (2, "byte 120133")] {
        let path = large(&folder, records, &cut);
        let args = ["send", "--pcap", &path, "--loop", "3", "--to", "null", "--json"];
        let done = wharf(&args);
        assert_eq!((done.code, &done.json()["sent"]), (Some(1), &(3 * records + 3).into()), "{done:?}");
        assert_eq!(done.line().matches(at).count(), 1, "{done:?}");
        let done = wharf(&[&args[..], &["--strict"]].concat());
        assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""), "{done:?}");
        assert!(done.line().contains(at) && done.line().contains("nothing is sent"), "{done:?}");
    }
    let path = large(&folder, 300, &[]);
    let done = wharf(&["send", "--pcap", &path, "--strict", "--loop", "1", "--to", "null", "--json"]);
    assert_eq!(done.good_json()["sent"], 300);
    // Nothing but records of length 0, millions of them.
    std::fs::File::options().write(true).open(&path).unwrap().set_len(24).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(24 + (20 << 20)).unwrap();
    let done = wharf(&["send", "--pcap", &path, "--loop", "1", "--to", "null", "--json"]);
    assert!(
        done.code == Some(1) && done.stderr.contains("none of its 1310720 records can be sent"),
        "{done:?}"
    );
}

/// A capture of another link type: two IPv4 packets, of which the header in front is no Ethernet's.
fn cooked(link_type: u32, head: &[u8]) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 36, 0, 1, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1];
    ip.extend([4, 0, 0, 9, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let len = (head.len() + ip.len()) as u32;
    let one = [&record(len, len, 0)[..], head, &ip].concat();
    [&header(65535)[..20], &link_type.to_le_bytes(), &one.repeat(2)].concat()
}

#[test]
fn other_link_types_are_sent_with_addresses_or_where_none_are_needed() {
    let folder = Folder::new();
    let sll = [0, 0, 0, 1, 0, 6, 6, 5, 4, 3, 2, 1, 0, 0, 8, 0];
    let out = text(&folder.path("out.pcap"));
    for (link_type, head, source) in [(101, &[][..], [2, 0, 0, 0, 0, 9]), (113, &sll, [6, 5, 4, 3, 2, 1])] {
        let path = folder.file("cooked.pcap", &cooked(link_type, head));
        for to in ["null", "wire", "udp:127.0.0.1:9,gso=off"] {
            let done = wharf(&["send", "--pcap", &path, "--loop", "1", "--to", to, "--json", "-q"]);
            assert_eq!(done.json()["packets"], 2, "{to}: {done:?}");
        }
        let done = wharf(&["send", "--pcap", &path, "--loop", "1", "--to", "packet:no-such-if"]);
        assert!(done.code == Some(1) && done.line().contains("--mac SRC,DST gives them"), "{done:?}");
        let macs = ["--mac", "02:00:00:00:00:09,02:00:00:00:00:08"];
        let to = format!("pcap:{out}");
        let args = [&["send", "--pcap", &path, "--loop", "1", "--to", &to, "--json"][..], &macs].concat();
        assert_eq!(wharf(&args).good_json()["bytes"], 100);
        let written = std::fs::read(&out).unwrap();
        assert_eq!(written[40..54], [&[2, 0, 0, 0, 0, 8][..], &source, &[8, 0]].concat());
        let from = format!("pcap:{path}");
        let done = wharf(&["receive", "--from", &from, "--json"]);
        assert_eq!((done.code, &done.json()["bytes"]), (Some(0), &100.into()), "{done:?}");
    }
    let path = folder.file("cooked.pcap", &cooked(101, &[0x20; 20]));
    let done = wharf(&["send", "--pcap", &path, "--to", "null"]);
    assert!(done.code == Some(1) && done.line().contains("none of its 2 records can be sent"), "{done:?}");
    assert!(done.stderr.contains("; --mac SRC,DST gives addresses to "), "{done:?}");
}

#[test]
fn a_count_ends_a_replay_wherever_it_is() {
    let folder = Folder::new();
    let path = folder.file("three.pcap", &[header(65535), record(60, 60, 60).repeat(3)].concat());
    let cases = [
        (&["--count", "2"][..], 2),
        (&["--count", "8"], 8),
        (&["--count", "8", "--loop", "2"], 6),
        (&["--count", "8", "--loop", "0"], 8),
    ];
    for (more, sent) in cases {
        let args = [&["send", "--pcap", &path, "--to", "null", "--json"][..], more].concat();
        assert_eq!(wharf(&args).good_json()["sent"], sent, "{more:?}");
    }
}

#[test]
fn times_that_go_back_and_long_gaps_are_told() {
    let folder = Folder::new();
    let at = |second: u32| [&second.to_le_bytes()[..], &record(60, 60, 60)[4..]].concat();
    let back: Vec<u8> = (1..=10).rev().flat_map(at).collect();
    let path = folder.file("back.pcap", &[header(65535), back].concat());
    let args = ["send", "--pcap", &path, "--to", "null", "--loop", "1", "--json"];
    let done = wharf(&[&args[..], &["--rate", "original"]].concat());
    assert!(done.code == Some(0) && done.line().contains("9 frames go back in time"), "{done:?}");
    assert_eq!(wharf(&args).stderr, "", "at top speed times are nothing");
    let path = folder.file("gap.pcap", &[header(65535), at(1), at(u32::MAX), at(2)].concat());
    let args = ["send", "--pcap", &path, "--to", "null", "--loop", "1", "--rate", "original", "--json"];
    let done = wharf(&[&args[..], &["--seconds", "0.2"]].concat());
    assert!(
        done.stderr.contains("a gap of 4294967294 s before frame 2; --max-gap TIME shortens it"),
        "{done:?}"
    );
    assert_eq!(done.json()["sent"], 1);
    let done = wharf(&[&args[..], &["--max-gap", "100ms"]].concat());
    assert_eq!(
        (done.json()["sent"].as_u64(), done.stderr.contains("a gap of")),
        (Some(3), false),
        "{done:?}"
    );
}

#[test]
fn gaps_are_refused_at_any_pace_but_that_of_the_capture() {
    for gap in ["--max-gap", "--loop-gap"] {
        let done = wharf(&["send", "--pcap", SAMPLE, "--to", "null", "--rate", "1kpps", gap, "100ms"]);
        let says = format!("{gap}: it is for a capture");
        assert!(done.code == Some(2) && done.line().contains(&says), "{done:?}");
    }
}

#[test]
fn a_signal_ends_the_reading_of_a_capture() {
    let folder = Folder::new();
    // A hole of 8 GiB: records of length 0.
    let path = folder.file("hole.pcap", &header(65535));
    std::fs::File::options().write(true).open(&path).unwrap().set_len(8 << 30).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_wharf"));
    child
        .args(["send", "--pcap", &path, "--to", "null", "--strict"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    // It tells the wait once it lasts.
    std::io::Read::read_exact(child.stderr.as_mut().unwrap(), &mut [0]).unwrap();
    signal(&child, "INT");
    let done = finish(child);
    assert!(done.stderr.contains("reading the capture: ended by a signal"), "{done:?}");
}

#[test]
fn a_capture_goes_at_its_own_pace_where_it_leaves_the_process() {
    let is_paced = |to: &str, more: &[&str]| {
        let args = ["send", "--pcap", SAMPLE, "--seconds", "0.05", "--json", "--to", to];
        !wharf(&[&args[..], more].concat()).json()["pauses"].is_null()
    };
    let folder = Folder::new();
    let file = format!("pcap:{}", text(&folder.path("out.pcap")));
    let top = ["--rate", "top"];
    assert!(is_paced("udp:127.0.0.1:9", &[]) && !is_paced("udp:127.0.0.1:9", &top));
    assert!(["null", "wire", &file].iter().all(|to| !is_paced(to, &[])));
    assert!(is_paced("null", &["--rate", "2x"]));
}

#[test]
fn rounds_of_a_capture_of_one_time_have_no_pace() {
    let folder = Folder::new();
    let path = folder.file("three.pcap", &[header(65535), record(60, 60, 60).repeat(3)].concat());
    let args = ["send", "--pcap", &path, "--to", "null", "--json", "--rate", "original"];
    for (more, sent) in
        [(&["--loop", "1"][..], 3), (&["--count", "3"], 3), (&["--loop", "2", "--loop-gap", "1ms"], 6)]
    {
        assert_eq!(wharf(&[&args[..], more].concat()).good_json()["sent"], sent, "{more:?}");
    }
    for more in [&["--loop", "0"][..], &["--seconds", "1"], &["--count", "4"]] {
        let done = wharf(&[&args[..], more].concat());
        assert!(done.code == Some(2) && done.line().contains("say --rate, or --loop-gap"), "{done:?}");
    }
    let done = wharf(&["send", "--pcap", &path, "--loop", "2", "--rate", "1kpps", "--loop-gap", "1"]);
    assert!(done.code == Some(2) && done.line().contains("at its own pace"), "{done:?}");
}

#[test]
fn record_cut_when_captured_is_sent_as_it_is_with_a_message() {
    let folder = Folder::new();
    let path = folder.file("snapped", &[header(65535), record(60, 1514, 60)].concat());
    let done = wharf(&["send", "--pcap", &path, "--loop", "1", "--json"]);
    assert_eq!((done.code, &done.json()["bytes"]), (Some(0), &60.into()));
    assert!(done.line().contains("1 of 1 frames were cut short"), "{done:?}");
}

/// Runs `wharf` where no file may become longer than some hundred KiB, as on a disk that fills up: writes come short, then fail.
/// Its memory is a file, too.
fn on_a_full_disk(args: &[&str]) -> crate::common::Done {
    let limited = "trap '' XFSZ; ulimit -f 300; exec \"$0\" \"$@\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", limited, env!("CARGO_BIN_EXE_wharf")]).args(args).args(["--frames", "64"]);
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(shell.spawn().unwrap())
}

/// Packets of a capture that is whole to its end.
#[track_caller]
fn packets_in(path: &str) -> u64 {
    let read = wharf(&["receive", "--from", &format!("pcap:{path}"), "--json"]);
    assert_eq!(read.code, Some(0), "{read:?}");
    read.json()["packets"].as_u64().unwrap()
}

#[test]
fn full_disk_leaves_whole_packets_and_reports_the_missing() {
    let folder = Folder::new();
    let out = text(&folder.path("out.pcap"));
    let done = on_a_full_disk(&["receive", "--from", &format!("pcap:{SAMPLE}"), "--pcap", &out]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("cannot write: File too large"), "{done:?}");
    assert!((100..2200).contains(&packets_in(&out)));
    for order in ["le", "be"] {
        let to = format!("pcap:{out},order={order}");
        let done = on_a_full_disk(&["send", "--pcap", SAMPLE, "--loop", "1", "--to", &to, "--json", "-q"]);
        assert_eq!(done.code, Some(1), "{done:?}");
        let (line, sent) = (done.line(), done.json()["sent"].as_u64().unwrap());
        assert!(line.contains("cannot write, without "), "{line}");
        assert_eq!(packets_in(&out), sent, "{line}");
    }
}

#[test]
fn a_capture_that_is_read_is_not_written_by_any_name() {
    let folder = Folder::new();
    let sample = std::fs::read(SAMPLE).unwrap();
    let [out, next, of_year] = ["out.pcap", "out-1.pcap", "cap%.pcap"].map(|name| text(&folder.path(name)));
    [&next, &of_year].into_iter().for_each(|path| std::fs::write(path, &sample).unwrap());
    let from = format!("pcap:{next}");
    let done = wharf(&["receive", "--from", &from, "--pcap", &out, "--rotate", "size=4k", "--json"]);
    assert_eq!((done.code, std::fs::read(&next).unwrap() == sample), (Some(0), true), "{done:?}");
    let further = |at: &u64| text(&folder.path(&format!("out-{at}.pcap")));
    let last = (2..).take_while(|at| std::fs::exists(further(at)).unwrap()).last().unwrap();
    let there = packets_in(&out) + packets_in(&further(&2)) + packets_in(&further(&last));
    assert!(there > 3 && last > 100, "{there} in three of {last}");
    let to = format!("pcap:{},every=1h", text(&folder.path("cap%%.pcap")));
    let done = wharf(&["send", "--pcap", &of_year, "--to", &to]);
    assert!(done.code == Some(2) && done.line().contains("it is the same file"), "{done:?}");
    assert!(std::fs::read(&of_year).unwrap() == sample);
}

#[test]
fn a_capture_goes_on_in_its_file_where_the_next_cannot_be_made() {
    let folder = Folder::new();
    let out = text(&folder.path("out.pcap"));
    std::fs::create_dir(folder.path("out-1.pcap")).unwrap();
    let (from, to) = (format!("pcap:{SAMPLE}"), format!("pcap:{out},size=4k"));
    let received = wharf(&["receive", "--from", &from, "--pcap", &out, "--rotate", "size=4k", "--json"]);
    let all = received.json()["packets"].as_u64().unwrap();
    assert_eq!(packets_in(&out), all);
    let sent = wharf(&["send", "--pcap", SAMPLE, "--loop", "1", "--to", &to, "--json"]);
    assert_eq!((sent.json()["sent"].as_u64(), packets_in(&out)), (Some(all), all));
    for done in [received, sent] {
        assert!(done.code == Some(1) && done.stderr.contains("is a directory"), "{done:?}");
    }
}
