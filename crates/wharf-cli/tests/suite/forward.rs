//! `wharf forward` without privileges: captures, wrong uses, and its end.

use crate::common::{Done, Folder, SAMPLE, SAMPLE_BYTES, SAMPLE_FRAMES, refusing_port, text, wharf};

/// True if the line says that forwarding has begun. Scripts wait for that line.
fn begins(done: &Done, from: &str) -> bool {
    matches!(done.news()[..], [line] if line.starts_with(&format!("wharf: forwarding {from} to ")))
}

#[test]
fn a_capture_goes_into_another_byte_for_byte() {
    let folder = Folder::new();
    let out = text(&folder.path("out.pcap"));
    let done = wharf(&["forward", &format!("pcap:{SAMPLE}"), &format!("pcap:{out}"), "--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(begins(&done, &format!("pcap:{SAMPLE}")), "{done:?}");
    let report = done.json();
    let [direction] = &report["directions"].as_array().unwrap()[..] else { panic!("{report}") };
    for (key, value) in
        [("received_packets", SAMPLE_FRAMES), ("packets", SAMPLE_FRAMES), ("bytes", SAMPLE_BYTES)]
    {
        assert_eq!(direction[key], value, "{key}");
    }
    assert_eq!((&direction["drops"]["total"], &direction["pool"]["out"]), (&0.into(), &0.into()));
    assert_eq!(direction["device"], format!("pcap:{out}"));
    let again = wharf(&["receive", "--from", &format!("pcap:{out}"), "--json"]).json();
    assert_eq!(
        (again["packets"].as_u64(), again["bytes"].as_u64()),
        (Some(SAMPLE_FRAMES), Some(SAMPLE_BYTES))
    );
}

#[test]
fn a_mirror_has_the_frames_that_left() {
    let folder = Folder::new();
    let mirror = text(&folder.path("mirror.pcap"));
    let read = format!("pcap:{SAMPLE}");
    let done = wharf(&["forward", &read, "null", "--mirror", &mirror, "--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(done.json()["mirror"]["frames"], SAMPLE_FRAMES);
    let again = wharf(&["receive", "--from", &format!("pcap:{mirror}"), "--json"]).json();
    assert_eq!(
        (again["packets"].as_u64(), again["bytes"].as_u64()),
        (Some(SAMPLE_FRAMES), Some(SAMPLE_BYTES))
    );
    let same = wharf(&["forward", &read, "null", "--mirror", SAMPLE]);
    assert!(same.code == Some(2) && same.line().contains("--mirror"), "{same:?}");
}

/// One queue at one end, several at the other: each flow leaves by one of them, and the account is of all.
#[test]
fn flows_are_spread_over_several_queues() {
    let read = format!("pcap:{SAMPLE}");
    for when_full in ["wait", "drop-tail"] {
        let done = wharf(&["forward", &read, "null", "--queues", "4", "--when-full", when_full, "--json"]);
        assert_eq!(done.code, Some(0), "{done:?}");
        let direction = &done.json()["directions"][0];
        let queues: Vec<u64> =
            direction["queues"].as_array().unwrap().iter().map(|one| one["sent"].as_u64().unwrap()).collect();
        let dropped = direction["drops"]["total"].as_u64().unwrap();
        assert_eq!(queues.iter().sum::<u64>() + dropped, SAMPLE_FRAMES, "{direction}");
        assert!(queues.len() == 4 && queues.iter().all(|&sent| sent > 0), "{direction}");
        assert_eq!(direction["pool"]["out"], 0);
    }
    let (folder, one) = (Folder::new(), ["--queues", "4", "--json"]);
    let out = text(&folder.path("out.pcap"));
    let done = wharf(&["forward", &read, &format!("pcap:{out}"), one[0], one[1], one[2]]);
    let direction = &done.json()["directions"][0];
    assert_eq!(direction["queues"].as_array().unwrap().len(), 1, "a capture has one: {direction}");
    assert_eq!(direction["sent"], SAMPLE_FRAMES);
}

/// A UDP socket sends the sample's UDP packets and drops the rest: the mirror has the packets sent.
#[test]
fn a_mirror_lacks_dropped_frames() {
    let folder = Folder::new();
    let mirror = text(&folder.path("mirror.pcap"));
    let listens = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = format!("udp:{}", listens.local_addr().unwrap());
    let done = wharf(&["forward", &format!("pcap:{SAMPLE}"), &to, "--mirror", &mirror, "--json"]);
    let report = done.json();
    let direction = &report["directions"][0];
    let number = |key: &str| direction[key].as_u64().unwrap();
    let (taken, sent, failed) = (number("packets"), number("sent"), number("failed"));
    assert_eq!((taken, sent + failed), (SAMPLE_FRAMES, SAMPLE_FRAMES), "{report}");
    assert!(sent > 0 && direction["drops"]["by_reason"]["not-udp"].as_u64() > Some(0), "{report}");
    assert_eq!((&report["mirror"]["frames"], &report["mirror"]["missed"]), (&sent.into(), &0.into()));
    let again = wharf(&["receive", "--from", &format!("pcap:{mirror}"), "--json"]).json();
    assert_eq!(again["packets"].as_u64(), Some(sent));
}

/// The run reports an error of the sending end and goes on: here that no program listens there.
#[test]
fn error_of_the_sending_end_is_reported() {
    let (_refuses, gone) = refusing_port();
    let is_told = |_| {
        let done = wharf(&["forward", &format!("pcap:{SAMPLE}"), &format!("udp:{gone}"), "--json"]);
        assert_eq!(done.code, Some(0), "drops are no failure: {done:?}");
        let told = done.stderr.lines().any(|line| line.starts_with(&format!("wharf: udp:{gone}: ")));
        let is_told = told && done.stderr.contains("listens");
        std::thread::sleep(std::time::Duration::from_millis(if is_told { 0 } else { 100 }));
        is_told
    };
    // The kernel refuses silently while it has sent too many ICMP messages of any program: `icmp_msgs_per_sec`.
    assert!((0..100).any(is_told), "100 runs told nothing");
}

#[test]
fn a_rate_is_kept() {
    let done = wharf(&[
        "forward",
        &format!("pcap:{SAMPLE}"),
        "null",
        "--rate",
        "8mbit",
        "--seconds",
        "0.2",
        "--json",
    ]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let direction = &done.json()["directions"][0];
    assert_eq!(direction["qdisc"], serde_json::json!({"name": "fifo", "root": "tbf"}));
    let total = |key: &str| direction[key].as_u64().unwrap();
    assert_eq!(total("received_packets"), total("packets") + total("returned"), "{direction}");
    // Not more than rate and burst, that is: how much less depends on the machine.
    assert!(direction["pool"]["out"] == 0 && direction["gbps"].as_f64().unwrap() < 0.0088, "{direction}");
}

#[test]
fn a_rate_of_packets_is_kept_whatever_their_length() {
    let from = format!("pcap:{SAMPLE}");
    for bucket in ["--bucket", "--burst"] {
        let began = std::time::Instant::now();
        let args = ["forward", &from, "null", "--rate", "2kpps", bucket, "64k", "--json"];
        let done = wharf(&args);
        assert_eq!((done.code, &done.json()["directions"][0]["sent"]), (Some(0), &2200.into()), "{done:?}");
        // 43 of the 2200 packets leave at once.
        assert!(began.elapsed().as_secs_f64() > 1.07, "{:?}", began.elapsed());
    }
}

/// The time in the discipline is that of the bucket: the last of 1.3 MB at 8 Mbit/s leave after more than a second.
#[test]
fn the_summary_has_the_time_in_the_discipline() {
    let read = format!("pcap:{SAMPLE}");
    let run =
        |more: &[&str]| wharf(&[&["forward", &read, "null", "--rate", "8mbit", "--json"], more].concat());
    let done = run(&["--qdisc", "prio"]).json();
    let direction = &done["directions"][0];
    assert_eq!(
        (&direction["when_full"], &direction["drops"]["total"]),
        (&"wait".into(), &0.into()),
        "{direction}"
    );
    let bands = direction["queue_delay_by_band"].as_array().unwrap();
    assert!(bands.iter().all(|band| band["band"].as_u64() < Some(3)) && !bands.is_empty(), "{direction}");
    assert!(direction["queue_delay_ns"]["p99"].as_u64() > Some(100_000_000), "{direction}");
    let people = wharf(&["forward", &read, "null", "--rate", "8mbit"]);
    for row in ["when full", "queue delay p50", "queue delay p99"] {
        assert!(people.stdout.lines().any(|line| line.starts_with(row)), "{row}: {}", people.stdout);
    }
}

/// A forwarder of a capture loses nothing; the same with a drop policy does, at its discipline.
#[test]
fn a_capture_is_dropped_from_only_if_asked() {
    let read = format!("pcap:{SAMPLE}");
    let done = wharf(&["forward", &read, "null", "--rate", "8mbit", "--when-full", "drop-tail", "--json"]);
    let direction = &done.json()["directions"][0];
    assert!(direction["drops"]["by_reason"]["drop-tail"].as_u64() > Some(1000), "{direction}");
    assert_eq!(
        (&direction["qdisc"]["name"], &direction["when_full"]),
        (&"fq_codel".into(), &"drop-tail".into())
    );
    let done = wharf(&["forward", &read, "null", "--bql", "max=4k", "--small-queues", "64k", "--json"]);
    let direction = &done.json()["directions"][0];
    assert_eq!(
        (&direction["sent"], &direction["returned"]),
        (&SAMPLE_FRAMES.into(), &0.into()),
        "{direction}"
    );
    assert!(direction["bql"]["limit_bytes"].as_u64() <= Some(4096), "{direction}");
    let off = wharf(&["forward", &read, "null", "--bql", "off", "--json"]).json();
    assert_eq!(off["directions"][0]["bql"]["enabled"], false);
}

/// Most of the capture is still in the discipline when it has been read: what has arrived leaves, however slowly.
#[test]
fn the_end_of_a_capture_waits_for_what_is_inside() {
    let read = format!("pcap:{SAMPLE}");
    let done = wharf(&["forward", &read, "null", "--rate", "8mbit", "--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let direction = &done.json()["directions"][0];
    assert_eq!(
        (&direction["sent"], &direction["returned"]),
        (&SAMPLE_FRAMES.into(), &0.into()),
        "{direction}"
    );
}

#[test]
fn the_summary_is_a_table_for_people() {
    let done = wharf(&["forward", &format!("pcap:{SAMPLE}"), "null"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    for row in
        ["from ", "to ", "received ", "packets ", "sent ", "byte queue limit ", "dropped ", "frames in use "]
    {
        assert!(done.stdout.lines().any(|line| line.starts_with(row)), "{row}: {}", done.stdout);
    }
}

/// Super-packets go through whole: the ends take the keys that ask for them.
#[test]
fn ends_may_be_asked_for_super_packets() {
    let folder = Folder::new();
    let end = format!("vhost-user:{},offload=on", text(&folder.path("vm.sock")));
    let done = wharf(&["forward", &end, "null", "--seconds", "0.2"]);
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[test]
fn impossible_ends_give_one_line() {
    let read = format!("pcap:{SAMPLE}");
    let cases: [(&[&str], i32, &str); 8] = [
        (&["null", "null"], 2, "nothing to forward: null and null both only send"),
        (&[&read, "wire"], 2, "wire: its other end is in this process"),
        (&["nothing:x", "null"], 2, "unknown kind of device"),
        (&["pcap:/no/such/file", "null"], 1, "/no/such/file"),
        (&[&read, &read], 2, "is the same file"),
        (&[&read, "null", "--cpu", "4095"], 2, "--cpu 4095: this process may use"),
        (&[&read, "null", "--pollers", "3"], 2, "two for each queue at most, so 1 to 2"),
        (&[&read, "packet:nowhere"], 1, "no such interface"),
    ];
    for (args, code, says) in cases {
        let args = [&["forward"], args].concat();
        let done = wharf(&args);
        // Opening a socket takes a privilege that may be lacking here.
        let lacking = done.stderr.contains("CAP_NET_RAW");
        assert_eq!(done.code, Some(code), "{args:?}: {done:?}");
        assert!(done.line().contains(says) || lacking, "{args:?}: {done:?}");
        assert_eq!(done.stdout, "", "{args:?}");
    }
}
