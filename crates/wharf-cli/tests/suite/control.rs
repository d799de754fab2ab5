//! The control socket: `wharf show`, `wharf set`, and clients that do wrong.

use crate::common::scrape::{ask, connected};
use crate::common::{Folder, command, finish, install, signal, text, wharf};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, socket};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A forwarder from a guest to nowhere, and its guest.
struct Rig {
    folder: Folder,
    forward: Child,
}

impl Rig {
    fn new(more: &[&str]) -> Self {
        let folder = Folder::new();
        let from = format!("vhost-user:{}", text(&folder.path("guest")));
        let control = text(&folder.path("control"));
        let args = ["forward", &from, "null", "--control", &control, "--json"];
        let forward = command(&[&args[..], more].concat()).spawn().unwrap();
        drop(connected(&folder.path("control")));
        let began = Instant::now();
        let rig = Self { folder, forward };
        while !rig.folder.path("guest").exists() || rig.show()["paths"].as_array().is_none_or(Vec::is_empty) {
            assert!(began.elapsed() < Duration::from_secs(20));
            sleep(Duration::from_millis(5));
        }
        rig
    }

    /// Starts a guest that sends `packets` packets of 1000 bytes a second.
    fn guest(&self, packets: &str, seconds: &str) -> Child {
        let to = format!("virtio-user:{}", text(&self.folder.path("guest")));
        let args = ["send", "--size", "1000", "--rate", packets, "--seconds", seconds, "--to", &to];
        let child = command(&args).spawn().unwrap();
        let began = Instant::now();
        while self.path("received_packets").as_u64() == Some(0) {
            assert!(began.elapsed() < Duration::from_secs(20), "nothing arrives");
            sleep(Duration::from_millis(10));
        }
        child
    }

    /// Asks until there is an answer: a busy machine may not let the forwarder run for seconds.
    fn show(&self) -> Value {
        let (control, began) = (self.control(), Instant::now());
        loop {
            let done = wharf(&["show", &control, "--json"]);
            if done.code == Some(0) {
                return done.json();
            }
            assert!(began.elapsed() < Duration::from_secs(20), "{done:?}");
        }
    }

    /// One value of its only direction.
    fn path(&self, key: &str) -> Value {
        self.show()["paths"][0][key].clone()
    }

    fn control(&self) -> String {
        text(&self.folder.path("control"))
    }

    #[track_caller]
    fn set(&self, changes: &[&str]) -> Value {
        let control = self.control();
        let done = wharf(&[&["set", &control, "--json"][..], changes].concat());
        done.good_json()["paths"][0]["settings"].clone()
    }

    /// Ends the forwarder; its report.
    fn end(self) -> Value {
        signal(&self.forward, "INT");
        let report = finish(self.forward).json();
        assert!(!self.folder.path("control").exists(), "the socket is removed at the end");
        report["directions"][0].clone()
    }
}

/// Bits per second that leave, over a second from now.
fn rate(rig: &Rig) -> f64 {
    let now = |shown: &Value| {
        (shown["time_s"].as_f64().unwrap(), shown["paths"][0]["sent_bytes"].as_f64().unwrap())
    };
    let (then_s, before) = now(&rig.show());
    sleep(Duration::from_secs(1));
    let (now_s, after) = now(&rig.show());
    (after - before) * 8.0 / (now_s - then_s)
}

#[test]
fn rate_of_a_running_forwarder_changes_and_nothing_is_lost_silently() {
    let rig = Rig::new(&["--rate", "4mbit"]);
    let guest = rig.guest("2kpps", "120");
    for (changes, bits) in [
        (&["rate=8mbit"][..], 8e6),
        (&["a-b.rate=2mbit", "burst=4k"], 2e6),
        (&["rate=off"], 16e6),
        (&["rate=4mbit", "qdisc=fifo:30"], 4e6),
    ] {
        let (settings, began) = (rig.set(changes), Instant::now());
        loop {
            let is = rate(&rig);
            // What a change did shows at once, and not only once the whole run has averaged it.
            let path = rig.show()["paths"][0].clone();
            let p50_ms = |key: &str| path[key][0]["p50"].as_u64().unwrap_or(0) / 1_000_000;
            let (whole, recent) = (p50_ms("delay_ns_by_band"), p50_ms("recent_delay_ns_by_band"));
            let is_fast = (0.8 * bits..1.2 * bits).contains(&is);
            if is_fast && whole >= 5 && (recent >= 5) != (bits > 8e6) {
                break;
            }
            // The guest is slower where other work has the processors.
            let found = format!("{changes:?}: {is} bit/s, {whole} and {recent} ms, {settings}");
            assert!(began.elapsed() < Duration::from_secs(30), "{found}");
        }
    }
    signal(&guest, "INT");
    finish(guest);
    let report = rig.end();
    let of = |key: &str| report[key].as_u64().unwrap();
    let drops = report["drops"]["total"].as_u64().unwrap();
    assert_eq!(of("received_packets"), of("sent") + of("returned") + drops, "{report}");
    assert_eq!((&report["qdisc"]["name"], &report["qdisc"]["root"]), (&"fifo".into(), &"tbf".into()));
    assert_eq!(report["pool"]["out"], 0);
}

#[test]
fn limit_that_was_not_given_goes_with_the_rate_and_order_does_not_matter() {
    let rig = Rig::new(&[]);
    let of = |changes: &[&str], key: &str| rig.set(changes)[key].as_str().unwrap_or_default().to_string();
    assert_eq!(of(&["rate=2mbit"], "qdisc"), "fq_codel:limit=50");
    assert_eq!(of(&["rate=20mbit"], "qdisc"), "fq_codel:limit=82");
    assert_eq!(of(&["burst=20k", "rate=30mbit"], "burst"), "20480");
    assert_eq!(of(&["qdisc=prio", "rate=2mbit"], "qdisc"), "prio:limit=50");
    assert_eq!(of(&["rate=off"], "burst"), "");
    assert_eq!(of(&["rate=20mbit", "qdisc=prio"], "qdisc"), "prio:limit=82");
    assert_eq!(of(&["rate=2mbit", "qdisc=fifo:9"], "qdisc"), "fifo:9");
    let done = wharf(&["set", &rig.control(), "rate=1mbit", "a-b.rate=2mbit"]);
    assert!(done.code == Some(1) && done.line().contains("rate: is given twice for a-b"), "{done:?}");
    assert_eq!(rig.path("settings")["rate"], "2000000bit");
    rig.end();
}

#[test]
fn what_waits_in_a_discipline_is_carried_over_or_counted() {
    let rig = Rig::new(&["--rate", "1mbit", "--qdisc", "fifo:400"]);
    let guest = rig.guest("2kpps", "120");
    let began = Instant::now();
    while rig.path("backlog_packets").as_u64() < Some(390) {
        assert!(began.elapsed() < Duration::from_secs(20), "no backlog");
    }
    let settings = rig.set(&["qdisc=prio:limit=400"]);
    assert_eq!(settings["qdisc"], "prio:limit=400");
    assert!(rig.path("backlog_packets").as_u64() > Some(300), "carried over: {}", rig.show());
    assert_eq!(rig.path("drops")["qdisc-changed"], Value::Null);
    rig.set(&["qdisc=fifo:10", "bql=max=64k", "batching=off"]);
    let changed = rig.path("drops")["qdisc-changed"].as_u64();
    signal(&guest, "INT");
    finish(guest);
    // Lanes have storage besides the limit: 256 packets of the forwarder's sender.
    assert!(changed > Some(50), "{changed:?}");
    let report = rig.end();
    let drops = report["drops"]["total"].as_u64().unwrap();
    assert_eq!(
        report["received_packets"].as_u64().unwrap(),
        report["sent"].as_u64().unwrap() + report["returned"].as_u64().unwrap() + drops
    );
    assert!(report["drops"]["by_reason"]["qdisc-changed"].as_u64() >= changed, "{report}");
}

/// Packets lost for `reason` from now on, in half a second.
fn drops(rig: &Rig, reason: &str) -> u64 {
    let now = || rig.path("drops")[reason].as_u64().unwrap_or(0);
    let before = now();
    sleep(Duration::from_millis(500));
    now() - before
}

#[test]
fn policies_and_small_queues_of_a_running_forwarder_change() {
    let rig = Rig::new(&["--rate", "2mbit", "--qdisc", "fifo:20", "--when-full", "wait"]);
    let guest = rig.guest("2kpps", "120");
    for (policy, reasons) in [
        ("wait", [false, false]),
        ("drop-tail", [true, false]),
        ("drop-head", [false, true]),
        ("drop-tail", [true, false]),
        ("wait", [false, false]),
    ] {
        let settings = rig.set(&[&format!("when-full={policy}")]);
        assert_eq!((&settings["when-full"], &settings["qdisc"]), (&policy.into(), &"fifo:20".into()));
        // A burst may be under way, and the guest may not run for a while.
        let began = Instant::now();
        while ["drop-tail", "drop-head"].map(|reason| drops(&rig, reason) > 0) != reasons {
            assert!(began.elapsed() < Duration::from_secs(20), "{policy}: {}", rig.show());
        }
    }
    // Lanes hold 256 packets besides the 20 of the discipline.
    assert!(rig.path("backlog_packets").as_u64() > Some(20));
    assert_eq!(rig.set(&["small-queues=4k"])["small-queues"], "4096");
    let began = Instant::now();
    while rig.path("backlog_packets").as_u64() > Some(5) {
        assert!(began.elapsed() < Duration::from_secs(20), "4 KiB are 4 packets: {}", rig.show());
    }
    signal(&guest, "INT");
    finish(guest);
    let report = rig.end();
    assert_eq!((&report["when_full"], &report["pool"]["out"]), (&"wait".into(), &0.into()));
    let of = |key: &str| report[key].as_u64().unwrap();
    let lost = report["drops"]["total"].as_u64().unwrap();
    assert_eq!(of("received_packets"), of("sent") + of("returned") + lost, "{report}");
}

#[test]
fn the_way_of_dropping_goes_with_the_discipline_until_one_is_asked_for() {
    let rig = Rig::new(&["--when-full", "drop-tail"]);
    let (given, own) = (rig, Rig::new(&[]));
    for (rig, changes, when_full) in [
        (&own, &["qdisc=prio"][..], "drop-tail"),
        (&own, &["qdisc=fq_codel"], "drop-head"),
        (&own, &["qdisc=fifo:9", "when-full=drop-head"], "drop-head"),
        (&own, &["qdisc=prio"], "drop-head"),
        (&given, &["qdisc=fq_codel"], "drop-tail"),
    ] {
        let done = wharf(&[&["set", &rig.control()][..], changes].concat());
        assert!(done.stdout.contains(&format!(" when-full={when_full}")), "{changes:?}: {done:?}");
    }
    [own, given].into_iter().for_each(|rig| drop(rig.end()));
}

#[test]
fn wrong_changes_are_one_line_and_change_nothing() {
    let rig = Rig::new(&[]);
    let (before, control) = (rig.path("settings"), rig.control());
    for (changes, what) in [
        (
            &["speed=1"][..],
            "\"speed\" is no key: there are rate, burst (or bucket), bql, batching (or batch), qdisc,",
        ),
        (&["rate=20mbit", "bql=maybe"], "want on, off, min=SIZE"),
        (&["c-d.rate=1mbit"], "\"c-d\" is no path: there is a-b"),
        (&["burst=4k"], "there is no rate"),
        (&["qdisc=fifo:100000"], "this run has memory for"),
        (&["qdisc=fast"], "want fifo"),
        (&["small-queues=1k"], "want on, off or a size from 4k"),
        (&["when-full=drop"], "want wait, drop-tail or drop-head"),
    ] {
        let done = wharf(&[&["set", &control][..], changes].concat());
        assert!(done.code == Some(1) && done.line().contains(what), "{changes:?}: {done:?}");
    }
    assert_eq!(rig.path("settings"), before);
    let done = wharf(&["set", &control]);
    assert!(done.code == Some(2) && done.line().contains("want KEY=VALUE"), "{done:?}");
    let done = wharf(&["show", "/nowhere/x.sock"]);
    assert!(done.code == Some(1) && done.line().contains("no process answers"), "{done:?}");
    rig.end();
}

#[test]
fn a_report_has_the_settings_of_the_end() {
    for (start, change, is_on) in [("off", "bql=max=20000", true), ("on", "bql=off", false)] {
        let rig = Rig::new(&["--bql", start]);
        rig.set(&[change]);
        let report = rig.end();
        assert_eq!(report["bql"]["enabled"], is_on, "{report}");
        assert!(is_on || report["bql"]["limit_bytes"] == 0, "{report}");
    }
    let folder = Folder::new();
    let [control, guest] = ["control", "guest"].map(|name| text(&folder.path(name)));
    // The kernel does not say when a datagram has left.
    let args = ["forward", &format!("vhost-user:{guest}"), "udp:127.0.0.1:9", "--bql", "off"];
    let child = command(&[&args[..], &["--control", &control]].concat()).spawn().unwrap();
    drop(connected(&folder.path("control")));
    let (began, mut said) = (Instant::now(), String::new());
    while !said.contains("it has no byte limit") {
        assert!(began.elapsed() < Duration::from_secs(20), "{said}");
        said = wharf(&["set", &control, "bql=on"]).stderr;
    }
    signal(&child, "INT");
    finish(child);
    let args = ["send", "--size", "60", "--rate", "1kpps", "--to", "wire", "--control", &control, "--json"];
    let child = command(&[&args[..], &["--seconds", "100"]].concat()).spawn().unwrap();
    drop(connected(&folder.path("control")));
    let began = Instant::now();
    while wharf(&["set", &control, "qdisc=prio", "bql=off"]).code != Some(0) {
        assert!(began.elapsed() < Duration::from_secs(20));
        sleep(Duration::from_millis(20));
    }
    signal(&child, "INT");
    let report = finish(child).json();
    assert_eq!(
        (&report["qdisc"]["name"], &report["bql"]["enabled"]),
        (&"prio".into(), &false.into()),
        "{report}"
    );
}

#[test]
fn bad_input_has_an_error_as_its_answer() {
    let rig = Rig::new(&[]);
    let socket = rig.folder.path("control");
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let mut garbage: Vec<String> =
        ["\n", "{}\n", "[]\n", "{\"request\":\"quit\"}\n", "null\n", "\u{0}\u{1}\n"]
            .map(String::from)
            .to_vec();
    garbage.push("x".repeat(1 << 20));
    garbage.push("[".repeat(4000) + "\n");
    for line in garbage {
        let mut stream = connected(&socket);
        let _ = stream.write_all(line.as_bytes());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        let is_error = answer.lines().next().is_some_and(|line| line.starts_with("{\"error\":"));
        // The server closes with bytes of a long line unread, and the answer may be lost with them.
        assert!(is_error || line.len() > 4096, "{line:.40}: {answer}");
    }
    // More silent clients than there are places.
    let silent: Vec<_> = (0..1000).map(|_| connected(&socket)).collect();
    rig.show();
    drop(silent);
    assert!(ask(&socket, "").is_empty());
    rig.end();
}

#[test]
fn runs_are_listed_and_left_over_sockets_removed() {
    let folder = Folder::new();
    let runtime = text(&folder.path(""));
    let is_root =
        std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let left_over = folder.path("wharf-4294967295.sock");
    drop(std::os::unix::net::UnixListener::bind(&left_over).unwrap());
    let from = format!("vhost-user:{}", text(&folder.path("guest")));
    let forward = command(&["forward", &from, "null"]).env("XDG_RUNTIME_DIR", &runtime).spawn().unwrap();
    let pid = u64::from(forward.id());
    let began = Instant::now();
    loop {
        let listed = command(&["show", "--json"]).env("XDG_RUNTIME_DIR", &runtime).spawn().unwrap();
        let listed = finish(listed).good_json();
        if listed.as_array().unwrap().iter().any(|run| run["pid"] == pid && run["command"] == "forward") {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{listed}");
        sleep(Duration::from_millis(20));
    }
    assert_eq!(left_over.exists(), is_root, "root's sockets are elsewhere");
    let shown = command(&["show", &pid.to_string()]).env("XDG_RUNTIME_DIR", &runtime).spawn().unwrap();
    let shown = finish(shown);
    assert!(shown.code == Some(0) && shown.stdout.contains(&format!("process {pid}")), "{shown:?}");
    signal(&forward, "TERM");
    finish(forward);
}

#[test]
fn a_process_that_is_stopped_is_shown_and_holds_up_no_list() {
    let folder = Folder::new();
    let with_folder = |args: &[&str]| {
        let mut command = command(args);
        command.env("XDG_RUNTIME_DIR", folder.path(""));
        command.spawn().unwrap()
    };
    let forward =
        with_folder(&["forward", &format!("vhost-user:{}", text(&folder.path("guest"))), "null", "-q"]);
    let pid = forward.id().to_string();
    let began = Instant::now();
    while !finish(with_folder(&["show"])).stdout.lines().any(|line| line.starts_with(&pid)) {
        assert!(began.elapsed() < Duration::from_secs(20), "it is not shown");
    }
    signal(&forward, "STOP");
    let began = Instant::now();
    let shown = finish(with_folder(&["show"])).stdout;
    let took = began.elapsed();
    let line = shown.lines().find(|line| line.starts_with(&pid));
    assert!(line.is_some_and(|line| line.contains("does not answer")), "{shown}");
    assert!(took < Duration::from_secs(4), "{took:?}");
    let set = finish(with_folder(&["set", &pid, "batching=off"]));
    let says = format!("process {pid} does not answer; the change may still be made when it does");
    assert!(set.code == Some(1) && set.line().contains(&says), "{set:?}");
    signal(&forward, "CONT");
    signal(&forward, "INT");
    finish(forward);
}

#[test]
fn a_run_that_has_no_place_for_its_socket_says_so() {
    let folder = Folder::new();
    let is_root = std::fs::metadata(folder.path("")).unwrap().uid() == 0;
    // Another user may be kept from the folder of the build.
    let wharf = folder.path("wharf");
    install(env!("CARGO_BIN_EXE_wharf"), &wharf);
    let run = |args: &[&str]| {
        let mut command = Command::new(&wharf);
        command.args(args).env_remove("XDG_RUNTIME_DIR");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if is_root {
            command.uid(65534);
        }
        command.spawn().unwrap()
    };
    let send = run(&["send", "--size", "60", "--rate", "1kpps", "--to", "udp:127.0.0.1:9"]);
    sleep(Duration::from_millis(700));
    signal(&send, "INT");
    let done = finish(send);
    assert!(done.stderr.contains("XDG_RUNTIME_DIR is not set; --control SOCKET names another"), "{done:?}");
    let shown = finish(run(&["show"]));
    assert!(shown.stdout.contains("root's need sudo"), "{shown:?}");
}

/// Between the two calls that make a socket, a connection to it is refused: it is no socket of a process that was killed.
#[test]
fn a_socket_that_is_not_listened_at_yet_stays() {
    let folder = Folder::new();
    let is_root = rustix::process::geteuid().is_root();
    let path = match is_root {
        true => std::path::PathBuf::from(format!("/run/wharf/{}.sock", std::process::id())),
        false => folder.path(&format!("wharf-{}.sock", std::process::id())),
    };
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let bound = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&bound, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    assert_eq!(
        std::os::unix::net::UnixStream::connect(&path).unwrap_err().kind(),
        std::io::ErrorKind::ConnectionRefused
    );
    let shown = command(&["show"]).env("XDG_RUNTIME_DIR", folder.path("")).spawn().unwrap();
    finish(shown);
    let is_there = path.exists();
    let _ = std::fs::remove_file(&path);
    assert!(is_there, "removed");
}

/// A process that is stopped has room for a few connections.
#[test]
fn a_listener_that_accepts_none_holds_no_client_up() {
    let folder = Folder::new();
    let path = folder.path("full");
    let bound = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&bound, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    rustix::net::listen(&bound, 0).unwrap();
    let _waits = UnixStream::connect(&path).unwrap();
    for args in [&["show", &text(&path)][..], &["set", &text(&path), "rate=1mbit"]] {
        let began = Instant::now();
        let done = wharf(args);
        assert!(done.code == Some(1) && done.line().contains("does not answer"), "{done:?}");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
}

/// Runs `body` beside a server at a socket that answers by `answer`, as long as the client reads.
fn beside_server(answer: impl Fn(&mut UnixStream) -> std::io::Result<()> + Send, body: impl FnOnce(&str)) {
    let folder = Folder::new();
    let path = folder.path("server");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // The client has gone.
            while answer(&mut stream).is_ok() {}
        });
        body(&text(&path));
    });
}

#[test]
fn an_answer_without_end_is_one_line() {
    for words in [&["show"][..], &["set", "rate=1mbit"]] {
        beside_server(
            |stream| stream.write_all(&[b'x'; 1 << 16]),
            |socket| {
                let done = wharf(&[&words[..1], &[socket], &words[1..]].concat());
                assert!(done.code == Some(1) && done.line().contains("longer than 16 MiB"), "{done:?}");
            },
        );
    }
}

#[test]
fn an_answer_that_comes_byte_by_byte_is_given_up() {
    let drip = |stream: &mut UnixStream| {
        sleep(Duration::from_millis(50));
        stream.write_all(b"x")
    };
    beside_server(drip, |socket| {
        let done = wharf(&["show", socket]);
        assert!(done.code == Some(1) && done.line().contains("does not answer"), "{done:?}");
    });
}
