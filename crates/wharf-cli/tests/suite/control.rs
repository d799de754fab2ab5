//! The control socket: `wharf show`, `wharf set`, and clients that do wrong.

use crate::common::scrape::connected;
use crate::common::show::{Connection, answered, until_path};
use crate::common::{Folder, Running, command, eventually, finish, install, text, wharf};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, socket};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// More than there are places for clients (`CLIENTS_MAX` in src/watch/control.rs).
const CLIENTS: usize = 40;

/// A forwarder from a guest to nowhere, and its guest.
struct Rig {
    folder: Folder,
    forward: Running,
}

impl Rig {
    fn new(more: &[&str]) -> Self {
        let folder = Folder::new();
        let from = format!("vhost-user:{}", text(&folder.path("guest")));
        let control = text(&folder.path("control"));
        let args = ["forward", &from, "null", "--control", &control, "--json"];
        let rig = Self { forward: Running::start(&[&args[..], more].concat()), folder };
        rig.until(|_| true);
        rig
    }

    /// Starts a guest that sends `packets` packets of 1000 bytes a second.
    fn guest(&self, packets: &str) -> Running {
        let to = format!("virtio-user:{}", text(&self.folder.path("guest")));
        let guest =
            Running::start(&["send", "--size", "1000", "--rate", packets, "--seconds", "1h", "--to", &to]);
        self.until(|path| path["received_packets"].as_u64() > Some(0));
        guest
    }

    /// Waits until `is` holds of its only direction. Returns the direction.
    #[track_caller]
    fn until(&self, is: impl Fn(&Value) -> bool) -> Value {
        until_path(&self.socket(), is)
    }

    /// One value of its only direction.
    fn path(&self, key: &str) -> Value {
        self.until(|_| true)[key].clone()
    }

    fn socket(&self) -> PathBuf {
        self.folder.path("control")
    }

    fn control(&self) -> String {
        text(&self.socket())
    }

    #[track_caller]
    fn set(&self, changes: &[&str]) -> Value {
        let control = self.control();
        let done = answered(&[&["set", &control, "--json"][..], changes].concat());
        done.good_json()["paths"][0]["settings"].clone()
    }

    /// Ends the forwarder; its report.
    fn end(self) -> Value {
        let report = self.forward.end().json();
        assert!(!self.folder.path("control").exists(), "the socket is removed at the end");
        report["directions"][0].clone()
    }
}

#[test]
fn rate_of_a_running_forwarder_changes_and_nothing_is_lost_silently() {
    // So slow that a busy machine catches up within the burst.
    let rig = Rig::new(&["--rate", "400kbit"]);
    let guest = rig.guest("200pps");
    for (changes, bits) in [
        (&["rate=800kbit"][..], 8e5),
        (&["a-b.rate=200kbit", "burst=4k"], 2e5),
        (&["rate=off"], 16e5),
        (&["rate=400kbit", "qdisc=fifo:30"], 4e5),
    ] {
        let (settings, mut connection) = (rig.set(changes), Connection::to(&rig.socket()).unwrap());
        let mut then = connection.show().unwrap();
        eventually(|| {
            sleep(Duration::from_millis(500));
            let now = connection.show().unwrap();
            let grown = |key: &str, of: fn(&Value) -> &Value| {
                of(&now)[key].as_f64().unwrap() - of(&then)[key].as_f64().unwrap()
            };
            let is = grown("sent_bytes", |shown| &shown["paths"][0]) * 8.0 / grown("time_s", |shown| shown);
            // What a change did shows at once, and not only once the whole run has averaged it.
            let p50_ms = |key: &str| now["paths"][0][key][0]["p50"].as_u64().unwrap_or(0) / 1_000_000;
            let (whole, recent) = (p50_ms("delay_ns_by_band"), p50_ms("recent_delay_ns_by_band"));
            // The guest is slower where other work has the processors.
            let is_fast = (0.8 * bits..1.2 * bits).contains(&is);
            let is_so = is_fast && whole >= 5 && (recent >= 5) != (bits > 8e5);
            then = now;
            let instead = || format!("{changes:?}: {is} bit/s, {whole} and {recent} ms, {settings}");
            is_so.then_some(()).ok_or_else(instead)
        });
    }
    guest.end();
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
    let done = answered(&["set", &rig.control(), "rate=1mbit", "a-b.rate=2mbit"]);
    assert!(done.code == Some(1) && done.line().contains("rate: is given twice for a-b"), "{done:?}");
    assert_eq!(rig.path("settings")["rate"], "2000000bit");
    rig.end();
}

#[test]
fn what_waits_in_a_discipline_is_carried_over_or_counted() {
    let rig = Rig::new(&["--rate", "1mbit", "--qdisc", "fifo:400"]);
    let guest = rig.guest("2kpps");
    rig.until(|path| path["backlog_packets"].as_u64() >= Some(390));
    let settings = rig.set(&["qdisc=prio:limit=400"]);
    assert_eq!(settings["qdisc"], "prio:limit=400");
    // What is carried over is not dropped; the guest may not run for a while, and some leave meanwhile.
    assert_eq!(rig.path("drops")["qdisc-changed"], Value::Null);
    rig.until(|path| path["backlog_packets"].as_u64() > Some(300));
    rig.set(&["qdisc=fifo:10", "bql=max=64k", "batching=off"]);
    let changed = rig.path("drops")["qdisc-changed"].as_u64();
    guest.end();
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

#[test]
fn a_ring_without_a_bound_is_told() {
    let rig = Rig::new(&[]);
    let control = rig.control();
    let is_told = |changes: &[&str]| {
        let done = answered(&[&["set", &control][..], changes].concat());
        assert_eq!(done.code, Some(0), "{done:?}");
        done.stderr.contains("bql=off: the device's ring fills: urgent packets wait behind all of it")
    };
    for (changes, told) in [
        (&["bql=on"][..], false),
        (&["bql=off"], true),
        (&["small-queues=4k"], false),
        (&["small-queues=off", "rate=20mbit"], false),
        (&["rate=off"], true),
        (&["bql=max=64k"], false),
    ] {
        assert_eq!(is_told(changes), told, "{changes:?}");
    }
    rig.end();
}

/// Returns whether packets are lost for each of `reasons` from now on, in a quarter of a second.
fn are_dropped(rig: &Rig, reasons: [&str; 2]) -> [bool; 2] {
    let now = || {
        let drops = rig.path("drops");
        reasons.map(|reason| drops[reason].as_u64().unwrap_or(0))
    };
    let before = now();
    sleep(Duration::from_millis(250));
    let after = now();
    [0, 1].map(|at| after[at] > before[at])
}

#[test]
fn policies_and_small_queues_of_a_running_forwarder_change() {
    let rig = Rig::new(&["--rate", "2mbit", "--qdisc", "fifo:20", "--when-full", "wait"]);
    let guest = rig.guest("2kpps");
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
        eventually(|| {
            let found = are_dropped(&rig, ["drop-tail", "drop-head"]);
            (found == reasons).then_some(()).ok_or_else(|| format!("{policy}: {found:?}"))
        });
    }
    // Lanes hold 256 packets besides the 20 of the discipline.
    rig.until(|path| path["backlog_packets"].as_u64() > Some(20));
    assert_eq!(rig.set(&["small-queues=4k"])["small-queues"], "4096");
    // 4 KiB are 4 packets.
    rig.until(|path| path["backlog_packets"].as_u64() <= Some(5));
    guest.end();
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
        let done = answered(&[&["set", &rig.control()][..], changes].concat());
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
        let done = answered(&[&["set", &control][..], changes].concat());
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
    let run = Running::start(&[&args[..], &["--control", &control]].concat());
    until_path(&folder.path("control"), |_| true);
    let said = answered(&["set", &control, "bql=on"]).stderr;
    assert!(said.contains("it has no byte limit"), "{said}");
    run.end();
    let args = ["send", "--size", "60", "--rate", "1kpps", "--to", "wire", "--control", &control, "--json"];
    let run = Running::start(&[&args[..], &["--seconds", "1h"]].concat());
    until_path(&folder.path("control"), |_| true);
    let done = answered(&["set", &control, "qdisc=prio", "bql=off"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let report = run.end().json();
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
    let mut silent: Vec<_> = (0..CLIENTS).map(|_| connected(&socket)).collect();
    rig.path("settings");
    assert_eq!(silent[0].read(&mut [0]).unwrap(), 0, "the first one has to go");
    drop(silent);
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
    let with_folder = |args: &[&str]| Running::of(command(args).env("XDG_RUNTIME_DIR", &runtime));
    let forward = with_folder(&["forward", &from, "null"]);
    let pid = u64::from(forward.child.id());
    eventually(|| {
        let listed = with_folder(&["show", "--json"]).finish().good_json();
        let is_it = |run: &Value| run["pid"] == pid && run["command"] == "forward";
        listed.as_array().unwrap().iter().any(is_it).then_some(()).ok_or_else(|| listed.to_string())
    });
    assert_eq!(left_over.exists(), is_root, "root's sockets are elsewhere");
    eventually(|| {
        let shown = with_folder(&["show", &pid.to_string()]).finish();
        let is_it = shown.code == Some(0) && shown.stdout.contains(&format!("process {pid}"));
        is_it.then_some(()).ok_or_else(|| format!("{shown:?}"))
    });
    forward.end();
}

#[test]
fn a_process_that_is_stopped_is_shown_and_holds_up_no_list() {
    let folder = Folder::new();
    let runtime = folder.path("");
    let with_folder = |args: &[&str]| Running::of(command(args).env("XDG_RUNTIME_DIR", &runtime));
    let from = format!("vhost-user:{}", text(&folder.path("guest")));
    let forward = with_folder(&["forward", &from, "null", "-q"]);
    let pid = forward.child.id().to_string();
    let until_listed = |words: &str| {
        eventually(|| {
            let shown = with_folder(&["show"]).finish().stdout;
            let of_it = |line: &str| line.split_whitespace().next() == Some(&pid) && line.contains(words);
            shown.lines().any(of_it).then_some(()).ok_or(shown)
        });
    };
    until_listed("forward ");
    // The list comes while it is stopped.
    forward.signal("STOP");
    until_listed("does not answer");
    let set = with_folder(&["set", &pid, "batching=off"]).finish();
    let says = format!("process {pid} does not answer; the change may still be made when it does");
    assert!(set.code == Some(1) && set.line().contains(&says), "{set:?}");
    forward.signal("CONT");
    forward.end();
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
        Running::of(&mut command)
    };
    let mut send = run(&["send", "--size", "60", "--rate", "1kpps", "--to", "udp:127.0.0.1:9"]);
    send.until_said("XDG_RUNTIME_DIR is not set; --control SOCKET names another");
    send.end();
    let shown = run(&["show"]).finish();
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
        let done = wharf(args);
        assert!(done.code == Some(1) && done.line().contains("does not answer"), "{done:?}");
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
