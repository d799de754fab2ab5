//! `--metrics`: what a scrape says is what the summary says, and no client holds anything up.

use crate::common::driver::Guest;
use crate::common::scrape::{Scrape, ask, connected};
use crate::common::{Folder, Running, SAMPLE, eventually, text, wharf};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::Duration;

/// More than there are places for clients (`CLIENTS_MAX` in src/watch/metrics/server.rs).
const CLIENTS: usize = 128;
/// Packets of a run.
const COUNT: &str = "10000";

/// Scrapes until all of `count` packets have come to their end, and nothing changes any more.
fn at_rest(socket: &Path, count: u64) -> Scrape {
    let ends = |scrape: &Scrape| {
        let of_queue = ["sent", "failed", "undelivered", "returned"];
        let of_queue = of_queue.map(|end| scrape.sum(&format!("wharf_queue_{end}_packets_total")));
        of_queue.iter().sum::<u64>() + scrape.sum("wharf_sender_drops_packets_total")
    };
    let counters = |scrape: &Scrape| {
        let of_path = |line: &&str| line.starts_with("wharf_queue_") || line.starts_with("wharf_sender_");
        scrape.text.lines().filter(of_path).map(String::from).collect::<Vec<_>>()
    };
    eventually(|| {
        let before = Scrape::of(socket);
        sleep(Duration::from_millis(100));
        let now = Scrape::of(socket);
        let is_over = ends(&now) == count && counters(&now) == counters(&before);
        if is_over { Ok(now) } else { Err(now.text) }
    })
}

fn number(report: &Value, key: &str) -> u64 {
    report[key].as_u64().unwrap_or_else(|| panic!("{key}: {report}"))
}

/// Compares all counters of a sending side.
#[track_caller]
fn assert_same(scrape: &Scrape, report: &Value) {
    let count = |name: &str| scrape.sum(&format!("wharf_queue_{name}_total"));
    let undelivered = count("undelivered_packets");
    for (key, value) in [
        ("packets", count("packets")),
        ("bytes", count("bytes")),
        ("batches", scrape.sum("wharf_queue_batches_calls_total")),
        ("doorbells", count("doorbells")),
        ("requeues", count("requeues_packets")),
        ("returned", count("returned_packets")),
        ("sent", count("sent_packets")),
        ("failed", count("failed_packets") + undelivered),
    ] {
        assert_eq!(value, number(report, key), "{key}: {}", scrape.text);
    }
    let mut drops: BTreeMap<String, u64> = BTreeMap::new();
    for name in ["queue_failures", "queue_losses_behind", "queue_drops", "device_drops"] {
        for (reason, count) in scrape.by(&format!("wharf_{name}_packets_total"), "reason") {
            *drops.entry(reason).or_default() += count;
        }
    }
    let at_senders = scrape.sum("wharf_sender_drops_packets_total");
    if at_senders > 0 {
        *drops.entry("drop-tail".into()).or_default() += at_senders;
    }
    let of_path = scrape.by("wharf_path_drops_packets_total", "reason");
    for drops in [drops, of_path] {
        assert_eq!(serde_json::to_value(&drops).unwrap(), report["drops"]["by_reason"], "{}", scrape.text);
    }
    for (key, name) in [
        ("packets", "packets"),
        ("waits", "waits"),
        ("drops", "drops_packets"),
        ("drained_packets", "drained_packets"),
    ] {
        let senders = report["senders"].as_array().unwrap();
        let all: u64 = senders.iter().map(|sender| number(sender, key)).sum();
        assert_eq!(scrape.sum(&format!("wharf_sender_{name}_total")), all, "{key}: {}", scrape.text);
    }
}

/// Starts a sender whose frames are on the wire until a signal.
fn sending(socket: &str, more: &[&str]) -> Running {
    // No more than the receiver has memory for.
    let args = ["send", "--size", "60", "--count", COUNT, "--to", "wire:delay=60s,rate=10gbit", "--metrics"];
    Running::start(&[&args[..], &[socket, "--json"], more].concat())
}

#[test]
fn a_scrape_after_the_traffic_equals_the_summary() {
    for more in [
        &[][..],
        &["--senders", "3", "--qdisc", "fifo:64", "--when-full", "drop-tail"],
        &["--fault", "seed=7,error=3%,short=10%,late=1%:200us,reorder=5%,half=1%"],
        &["--fault", "seed=9,error=1%,alloc=5%", "--senders", "2", "--qdisc", "fq_codel"],
    ] {
        let folder = Folder::new();
        let socket = folder.path("metrics");
        let run = sending(&text(&socket), more);
        let scrape = at_rest(&socket, COUNT.parse().unwrap());
        assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
        let report = run.end().json();
        assert_same(&scrape, &report);
        if let Some(injected) = report["faults"]["injected"]["error"].as_u64() {
            assert_eq!(
                scrape.by("wharf_queue_failures_packets_total", "reason")["injected"],
                injected,
                "{more:?}"
            );
        }
        for (name, value) in scrape.by("wharf_qdisc_statistic", "statistic") {
            assert_eq!(report["qdisc"][&name], value, "{name}: {report}");
        }
        for (name, family) in
            [("new_flows", "new_flows_total"), ("overlimit_drops", "overlimit_drops_packets_total")]
        {
            let value = report["qdisc"][name].as_u64().unwrap_or(0);
            assert_eq!(scrape.sum(&format!("wharf_qdisc_{family}")), value, "{name}: {report}");
        }
        assert!(!socket.exists(), "it is removed at the end");
    }
}

/// Prometheus keeps one value of a name and its labels: [`Scrape::of`] checks that there is no other.
#[test]
fn queues_pollers_and_ends_that_share_a_name_are_series_of_their_own() {
    let folder = Folder::new();
    let [socket, a, b, c] = ["metrics", "a", "b", "c"].map(|name| text(&folder.path(name)));
    let [a, b, c] = [a, b, c].map(|path| format!("vhost-user:{path}"));
    for args in [
        &["send", "--size", "60", "--queues", "2", "--seconds", "1h", "--to", "null", "--rate", "1kpps"][..],
        &["forward", &a, &b, "--pollers", "2"],
        &["forward", &a, &b, &c],
    ] {
        let run = Running::start(&[args, &["--metrics", &socket]].concat());
        until_begun(Path::new(&socket), "wharf_run_paths");
        run.end();
    }
}

/// Scrapes until there is a value of `name` above 0: the devices are open.
fn until_begun(socket: &Path, name: &str) {
    eventually(|| {
        let scrape = Scrape::of(socket);
        if scrape.sum(name) > 0 { Ok(()) } else { Err(scrape.text) }
    });
}

/// A forwarder from a guest to `to`: no privilege, and at rest once the guest has gone.
fn forwarding(folder: &Folder, to: &str, more: &[&str]) -> Running {
    let from = format!("vhost-user:{}", text(&folder.path("guest")));
    let metrics = text(&folder.path("metrics"));
    Running::start(&[&["forward", &from, to, "--metrics", &metrics, "--json"][..], more].concat())
}

/// Sends `count` packets to it.
fn guest_sends(folder: &Folder, count: &str, more: &[&str]) {
    until_begun(&folder.path("metrics"), "wharf_run_paths");
    let to = format!("virtio-user:{}", text(&folder.path("guest")));
    let send = ["send", "--size", "60", "--count", count, "--to", &to, "--json"];
    let done = wharf(&[&send[..], more].concat());
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[test]
fn a_scrape_of_a_forwarder_at_rest_equals_its_summary() {
    for (more, has_drops) in [
        (&[][..], false),
        // Far below what a guest sends, on a busy machine, too.
        (&["--rate", "1mbit", "--qdisc", "fq_codel:limit=40"], true),
        (&["--rate", "1mbit", "--qdisc", "prio:limit=20"], true),
    ] {
        let folder = Folder::new();
        let run = forwarding(&folder, "null", more);
        guest_sends(&folder, COUNT, &[]);
        let scrape = at_rest(&folder.path("metrics"), COUNT.parse().unwrap());
        // The guest is away, which the exit code may say.
        let report = run.end().json();
        let direction = &report["directions"][0];
        assert_same(&scrape, direction);
        let received = scrape.sum("wharf_receiver_received_packets_total");
        assert_eq!(received, number(direction, "received_packets"));
        let drops = direction["drops"]["total"].as_u64();
        assert_eq!(drops > Some(0), has_drops, "{direction}");
    }
}

#[test]
fn a_scrape_of_a_switch_has_what_its_ports_drop() {
    let folder = Folder::new();
    let others = ["b", "c"].map(|name| format!("vhost-user:{}", text(&folder.path(name))));
    let run = forwarding(&folder, &others[0], &[&others[1]]);
    // A station that sends to itself.
    guest_sends(&folder, "100", &["--mac", "02:00:00:00:00:01,02:00:00:00:00:01"]);
    let lost = eventually(|| {
        let scrape = Scrape::of(&folder.path("metrics"));
        let lost = scrape.by("wharf_path_drops_packets_total", "reason");
        if lost.get("same-port") == Some(&100) { Ok(lost) } else { Err(scrape.text) }
    });
    let report = run.end().json();
    assert_eq!(serde_json::to_value(&lost).unwrap(), report["directions"][0]["drops"]["by_reason"]);
}

/// A scrape of a forwarder at rest, behind a rate.
fn scraped() -> Scrape {
    let folder = Folder::new();
    let run = forwarding(&folder, "null", &["--rate", "30mbit"]);
    guest_sends(&folder, "1000", &[]);
    let scrape = at_rest(&folder.path("metrics"), 1000);
    run.end();
    scrape
}

/// Names without a unit are kept beside those with one, of the same values.
#[test]
fn what_has_a_name_without_unit_has_one_with_it_too() {
    let folder = Folder::new();
    let run = forwarding(&folder, &format!("vhost-user:{}", text(&folder.path("other"))), &[]);
    let mut guest = Guest::boot(&folder.path("guest"));
    guest.enable();
    let scrape = eventually(|| {
        let scrape = Scrape::of(&folder.path("metrics"));
        if scrape.sum("wharf_device_pairs_in_use") > 0 { Ok(scrape) } else { Err(scrape.text) }
    });
    drop(guest);
    run.end();
    for (old, new) in [
        ("path", "path_info"),
        ("device", "device_info"),
        ("device_pairs_in_use", "device_in_use_pairs"),
        ("device_pair_kicks_total", "device_pair_kicks_notifications_total"),
        ("device_pair_interrupts_total", "device_pair_interrupts_notifications_total"),
    ] {
        let values = |name| {
            let all = scrape.text.lines().filter_map(|line| line.strip_prefix(&format!("wharf_{name}{{")));
            all.collect::<Vec<_>>()
        };
        assert!(!values(old).is_empty() && values(old) == values(new), "{old}: {}", scrape.text);
    }
}

/// Names have their unit, and each is described once.
#[test]
fn every_value_has_help_type_and_unit() {
    let scrape = scraped();
    let mut described = "";
    for line in scrape.text.lines().filter(|line| *line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            described = rest.split(' ').next().unwrap();
            for word in ["HELP", "UNIT"] {
                let has_none = word == "UNIT" && described.starts_with("wharf_run");
                let has_none = has_none || (word == "UNIT" && described == "wharf_qdisc_statistic");
                // Of other makers, or in base units.
                let bases = [
                    "process_",
                    "wharf_build",
                    "wharf_path",
                    "wharf_link_",
                    "wharf_qdisc_delay_seconds",
                    "wharf_queue_batch_packets",
                ];
                let has_none =
                    has_none || word == "UNIT" && bases.iter().any(|base| described.starts_with(base));
                let count = scrape.text.matches(&format!("# {word} {described} ")).count();
                assert_eq!(count, usize::from(!has_none), "{word} {described}");
            }
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            let ends = ["_total", "_info", "_bucket", "_count", "_sum"];
            let stem = ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            assert!([stem, name].contains(&described), "{line}");
        }
    }
    for [name, seconds] in [
        ["queue_overload_ns_total", "queue_overload_seconds_total"],
        ["queue_longest_stall_ns", "queue_longest_stall_seconds"],
    ] {
        assert!(
            scrape.text.contains(&format!("wharf_{name}{{"))
                && scrape.text.contains(&format!("wharf_{seconds}{{")),
            "{name}: {}",
            scrape.text
        );
    }
    for name in ["wharf_pool_size_frames", "wharf_poller_sleeps_total", "wharf_queue_bytes_total"] {
        assert!(scrape.sum(name) > 0, "{name}: {}", scrape.text);
    }
    // Packets that found the queue empty were not delayed.
    for name in [
        "wharf_qdisc_delay_ns{",
        "wharf_qdisc_delay_seconds_bucket{",
        "wharf_queue_batch_packets_bucket{",
        "process_cpu_seconds_total ",
        "wharf_build_info{",
    ] {
        assert!(scrape.text.contains(&format!("\n{name}")), "{name}: {}", scrape.text);
    }
}

#[test]
fn slow_silent_and_wrong_clients_hold_nothing_up() {
    let folder = Folder::new();
    let socket = folder.path("metrics");
    let run = forwarding(&folder, "null", &[]);
    let is_answered = |_| {
        let mut silent: Vec<_> = (0..CLIENTS).map(|_| connected(&socket)).collect();
        silent.iter_mut().step_by(2).for_each(|stream| drop(stream.write_all(b"GET /metr")));
        Scrape::of(&socket);
        // The last one is still there: on a busy machine it may have been let go for its silence.
        let mut last = silent.pop().unwrap();
        last.set_nonblocking(true).unwrap();
        last.read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    assert!((0..10).any(is_answered), "no scrape beside silent clients");
    let _silent: Vec<_> = (0..CLIENTS).map(|_| connected(&socket)).collect();
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n".to_string(), "404"),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n".into(), "405"),
        (format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(1 << 20)), ""),
        ("\0\u{1}\r\n\r\n".into(), "400"),
    ] {
        let answer = ask(&socket, &request);
        assert!(
            answer.is_empty() || answer.split(' ').nth(1).is_some_and(|is| is.starts_with(status)),
            "{answer}"
        );
    }
    Scrape::of(&socket);
    assert_eq!(run.end().code, Some(0));
}

#[test]
fn a_place_that_cannot_be_had_is_one_line() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let folder = Folder::new();
    let file = folder.file("file", b"x");
    let (live, read) = (folder.path("live"), format!("pcap:{SAMPLE}"));
    let listens = std::os::unix::net::UnixListener::bind(&live).unwrap();
    for (place, code, what) in [
        (taken.as_str(), 1, "another program listens there"),
        (&file, 1, "no socket"),
        (&text(&live), 1, "another process listens there"),
        ("/nowhere/x.sock", 1, "cannot listen there"),
        ("9100", 2, "want ADDRESS:PORT"),
    ] {
        let done = wharf(&["forward", &read, "null", "--metrics", place]);
        assert!(done.code == Some(code) && done.line().contains(what), "{place}: {done:?}");
    }
    let done = wharf(&["forward", &read, "null", "--metrics", "127.0.0.1:0", "--json"]);
    let port = done
        .stderr
        .lines()
        .next()
        .unwrap()
        .strip_prefix("wharf: metrics at http://127.0.0.1:")
        .and_then(|at| at.strip_suffix("/metrics"));
    assert!(port.is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port > 0)), "{done:?}");
    // A killed process has left it.
    drop(listens);
    let done = wharf(&["forward", &read, "null", "--metrics", &text(&live), "--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(!live.exists());
}

#[test]
fn a_client_that_ends_its_side_behind_the_request_has_the_whole_answer() {
    let folder = Folder::new();
    let socket = folder.path("metrics");
    // The counters of a device that receives are waited for.
    let run = Running::start(&["receive", "--from", "udp:127.0.0.1:0", "--metrics", &text(&socket)]);
    until_begun(&socket, "wharf_pool_size_frames");
    let mut stream = connected(&socket);
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("# EOF\n"), "{answer}");
    run.end();
}

#[test]
fn a_request_for_another_host_is_refused_where_that_was_asked() {
    let folder = Folder::new();
    let socket = folder.path("metrics");
    let asked = ["--metrics-host", "x"];
    let receive = ["receive", "--from", "udp:127.0.0.1:0", "--metrics", &text(&socket)];
    let run = Running::start(&[&receive[..], &asked].concat());
    until_begun(&socket, "wharf_pool_size_frames");
    for (host, code) in [("x", 200), ("X:9100", 200), ("evil.example", 421), ("x.evil.example:9100", 421)] {
        let answer = ask(&socket, &format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{host}: {answer}");
    }
    run.end();
}

/// A client whose answer is made while others connect all the time.
#[test]
fn clients_that_only_connect_keep_no_scrape_out() {
    let folder = Folder::new();
    let socket = folder.path("metrics");
    let run = forwarding(&folder, "null", &[]);
    Scrape::of(&socket);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut kept = VecDeque::new();
            while !is_over.load(Relaxed) {
                // The server may let one go before it is there.
                kept.extend(UnixStream::connect(&socket));
                kept.drain(..kept.len().saturating_sub(CLIENTS));
            }
        });
        let scrapes = std::panic::catch_unwind(|| (0..20).for_each(|_| drop(Scrape::of(&socket))));
        is_over.store(true, Relaxed);
        scrapes.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    run.end();
}

/// The names of metrics in the board's expressions.
fn names_in(board: &str) -> BTreeSet<String> {
    let board: Value = serde_json::from_str(board).unwrap();
    let targets =
        board["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let expressions: Vec<&str> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    let words =
        expressions.iter().flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    words.filter(|word| word.starts_with("wharf_")).map(String::from).collect()
}

/// promtool, which is not everywhere, has nothing to say about it.
#[test]
fn the_classic_format_describes_each_value_by_its_name() {
    let folder = Folder::new();
    let run = forwarding(&folder, "null", &["--rate", "30mbit"]);
    guest_sends(&folder, "1000", &[]);
    at_rest(&folder.path("metrics"), 1000);
    let [anything, plain] = ["*/*", "text/plain"].map(|accept| {
        let asked = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n");
        ask(&folder.path("metrics"), &asked)
    });
    run.end();
    let (_, text) = plain.split_once("\r\n\r\n").unwrap();
    for answer in [&anything, &plain] {
        assert!(answer.contains("text/plain; version=0.0.4") && !answer.contains("# UNIT"), "{answer}");
    }
    let mut described = "";
    for line in text.lines() {
        match line.strip_prefix("# TYPE ") {
            Some(rest) => described = rest.split(' ').next().unwrap(),
            None if line.starts_with('#') => assert!(line.starts_with("# HELP "), "{line}"),
            None => assert!(line.starts_with(described) && !line.contains("_ns{"), "{line}"),
        }
    }
    let mut tool = std::process::Command::new("promtool");
    tool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let tool = tool.spawn();
    let Ok(mut tool) = tool else { return };
    tool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let said = tool.wait_with_output().unwrap();
    assert!(said.status.success() && said.stderr.is_empty(), "{said:?}");
}

#[test]
fn board_shows_metrics_that_there_are() {
    let mut names = names_in(include_str!("../../../../docs/grafana.json"));
    let alerts = include_str!("../../../../docs/alerts.yml");
    let words = alerts.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    names.extend(words.filter(|word| word.starts_with("wharf_")).map(String::from));
    assert!(names.len() > 12, "{names:?}");
    let scrape = scraped();
    for name in names {
        let family = ["_total", "_bucket"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
        // These have no value before the first drop of a device, nor a description.
        let is_rare = [
            "wharf_queue_failures_packets",
            "wharf_queue_losses_behind_packets",
            "wharf_queue_drops_packets",
            "wharf_device_drops_packets",
            "wharf_link_up",
        ];
        let is_there = scrape.text.contains(&format!("# TYPE {family} "));
        assert!(is_there || is_rare.contains(&family), "{name}: {}", scrape.text);
    }
}
