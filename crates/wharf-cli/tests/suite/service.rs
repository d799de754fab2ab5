//! `wharf forward` as a service: its configuration file, reloads, and what it tells a service manager. Traffic, a hang and privileges
//! are tried in tests/service.sh.

use crate::common::show::{answered, until_path};
use crate::common::{Done, Folder, Running, command, finish, is_news, text, wharf};
use rustix::fs::{CWD, FileType};
use serde_json::Value;
use std::io::ErrorKind;
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, Instant};

/// A forwarder from a guest that does not come to nowhere, with a configuration file.
/// The file says nothing of `when-full`, which then goes with the discipline, whatever `wharf set` asked for before.
#[test]
fn a_reload_has_the_way_of_dropping_go_with_the_discipline_again() {
    let mut rig = Rig::new("", &[]);
    let control = text(&rig.folder.path("control"));
    for (asked, file, qdisc, when_full) in [
        ("when-full=drop-tail", "", "qdisc=prio", "drop-tail"),
        ("when-full=drop-head", "", "qdisc=fq_codel", "drop-head"),
        ("when-full=drop-tail", "qdisc = \"fifo\"\nwhen-full = \"drop-head\"\n", "qdisc=prio", "drop-head"),
        ("when-full=drop-tail", "qdisc = \"prio\"\n", "qdisc=fq_codel", "drop-head"),
    ] {
        answered(&["set", &control, asked, "--json"]).good_json();
        assert!(rig.reload(file).contains("read again"), "{asked}");
        answered(&["set", &control, qdisc, "--json"]).good_json();
        assert_eq!(rig.setting("when-full"), when_full, "{asked}, {file:?}, {qdisc}");
    }
    assert_eq!(rig.end().code, Some(0));
}

struct Rig {
    folder: Folder,
    forward: Running,
    /// Lines on standard error that were heard.
    heard: usize,
}

impl Rig {
    /// Starts it with `settings` in the file, and `more` on the command line.
    fn new(settings: &str, more: &[&str]) -> Self {
        let folder = Folder::new();
        write(&folder, settings);
        let config = text(&folder.path("f.toml"));
        let notify = folder.path("notify");
        let mut command = command(&[&["forward", "--config", &config, "--json"][..], more].concat());
        command.env("NOTIFY_SOCKET", notify).env("WATCHDOG_USEC", "400000");
        let mut rig = Self { folder, forward: Running::of(&mut command), heard: 0 };
        assert!(rig.says().contains("forwarding"));
        rig
    }

    /// The next line on standard error.
    fn says(&mut self) -> String {
        self.heard += 1;
        self.forward.until_lines(self.heard, is_news).remove(self.heard - 1)
    }

    /// Writes the file, and has it read. The line that says what became of it.
    fn reload(&mut self, settings: &str) -> String {
        write(&self.folder, settings);
        self.forward.signal("HUP");
        self.says()
    }

    /// A setting in force.
    fn setting(&self, key: &str) -> Value {
        until_path(&self.folder.path("control"), |_| true)["settings"][key].clone()
    }

    fn end(self) -> Done {
        self.forward.signal("TERM");
        self.forward.finish()
    }
}

fn write(folder: &Folder, settings: &str) {
    let ends = format!(
        "a = \"vhost-user:{}\"\nb = \"null\"\ncontrol = \"{}\"\n",
        text(&folder.path("guest")),
        text(&folder.path("control"))
    );
    folder.file("f.toml", format!("{ends}{settings}").as_bytes());
}

/// Another program may be the source at the start. A run that goes on waits for none.
#[test]
fn a_file_that_is_none_any_more_is_a_line_and_the_run_goes_on() {
    let mut rig = Rig::new("rate = \"20mbit\"\n", &[]);
    let path = rig.folder.path("f.toml");
    let make: [fn(&Path) -> std::io::Result<()>; 2] = [
        |path| rustix::fs::mknodat(CWD, path, FileType::Fifo, 0o600.into(), 0).map_err(Into::into),
        |path| std::fs::create_dir(path),
    ];
    for make in make {
        std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir(&path)).unwrap();
        make(&path).unwrap();
        rig.forward.signal("HUP");
        let said = rig.says();
        assert!(said.contains("it is no regular file") && said.ends_with("no setting changes"), "{said}");
    }
    std::fs::remove_dir(&path).unwrap();
    assert!(rig.reload("rate = \"10mbit\"\n").contains("read again"));
    assert_eq!(rig.end().code, Some(0));
}

#[test]
fn a_configuration_of_another_program_is_read_at_the_start() {
    let mut child = command(&["forward", "--config", "/dev/stdin", "--check"]);
    let mut child = child.stdin(std::process::Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"a = \"null\"\nb = \"wire\"\n").unwrap();
    let done = finish(child);
    assert!(done.code == Some(0) && done.stderr.contains("no mistake in it"), "{done:?}");
}

/// Checks a file with these contents.
fn check(contents: &str, more: &[&str]) -> Done {
    let folder = Folder::new();
    let path = folder.file("f.toml", contents.as_bytes());
    let mut done = wharf(&[&["forward", "--config", &path, "--check"][..], more].concat());
    done.stderr = done.stderr.replace(&path, "f.toml");
    done
}

#[test]
fn a_file_is_checked_as_a_whole_before_anything_is_opened() {
    let done = check("a = \"null\"\nb = \"wire\"\nrate = \"20mbit\"\n", &[]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), "wharf: f.toml: no mistake in it\n"));
    let done = check("a = \"null\"\nrate = \"fast\"\n\nrates = 1\n[log]\nformat = 7\n", &[]);
    let lines: Vec<&str> = done.stderr.lines().collect();
    assert_eq!((done.code, done.stdout.as_str(), lines.len()), (Some(2), "", 3), "{done:?}");
    assert!(lines[0].starts_with("wharf: f.toml:2: rate = \"fast\": want a rate from 8kbit"), "{done:?}");
    assert!(lines[1].starts_with("wharf: f.toml:4: \"rates\" is no key: there are a, b,"), "{done:?}");
    assert!(lines[2].starts_with("wharf: f.toml:6: format = 7: [possible values: text"), "{done:?}");
    for (contents, what) in [
        ("b = \"null\"\n", "wharf: f.toml: there is no end a: want a = \"DEVICE\""),
        ("a = \"null\"\nb = \"null\"\nbucket = \"64k\"\n", "wharf: f.toml: the following required arguments"),
        (
            "a = \"null\"\nb = \"wire\"\n[privileges]\nuser = \"no-such-user\"\n",
            "wharf: f.toml:4: --user no-such-user: no user",
        ),
        ("a = \"packet:lo\"\nb = \"packet:lo\"\n", "wharf: f.toml: both ends are packet:lo"),
        (
            "a = \"null\"\nb = \"wire\"\nqueues = 2\npollers = 9\n",
            "wharf: f.toml:4: --pollers 9: two for each queue",
        ),
    ] {
        let done = check(contents, &[]);
        assert!(done.code == Some(2) && done.stderr.starts_with(what), "{contents}: {done:?}");
        assert_eq!(done.stderr.lines().count(), 1);
    }
}

#[test]
fn an_endless_file_is_no_configuration() {
    let done = wharf(&["forward", "--config", "/dev/zero"]);
    assert!(done.code == Some(2) && done.line().contains("longer than 1 MiB"), "{done:?}");
}

#[test]
fn options_of_the_command_line_win_over_the_file() {
    let file = "a = \"null\"\nb = \"wire\"\nqueues = 2\n[log]\nverbose = 1\n";
    assert_eq!(check(file, &["--pollers", "5"]).code, Some(2), "the file's queues hold");
    assert_eq!(check(file, &["--pollers", "5", "--queues", "3", "-q"]).code, Some(0));
    let rig = Rig::new("rate = \"20mbit\"\nbatching = \"bytes=4k\"\n", &["--rate", "5mbit"]);
    assert_eq!((rig.setting("rate"), rig.setting("batching")), ("5000000bit".into(), "bytes=4096".into()));
    assert_eq!(rig.end().code, Some(0));
}

#[test]
fn a_reload_changes_what_it_can_and_says_what_takes_a_restart() {
    let mut rig = Rig::new("rate = \"20mbit\"\n", &[]);
    assert!(rig.reload("rate = \"20mbit\"\n").ends_with("read again: no setting changes"));
    let said = rig.reload("rate = \"200mbit\"\nqdisc = \"fifo:20\"\nbatch = \"off\"\n");
    let want = "a-b: batching=off bucket=100000 qdisc=fifo:20 rate=200mbit when-full=drop-tail";
    assert!(said.ends_with(&format!("read again: {want}")), "{said}");
    // Without a rate the file means none.
    assert!(
        rig.reload("qdisc = \"fifo:20\"\n").ends_with("read again: a-b: batching=on bucket=off rate=off")
    );
    assert_eq!(rig.setting("rate"), Value::Null);
    // The file's settings come back in the place of those of `wharf set`.
    let control = text(&rig.folder.path("control"));
    answered(&["set", &control, "rate=5mbit", "--json"]).good_json();
    assert!(rig.reload("rate = \"7mbit\"\nqdisc = \"fifo:20\"\n").contains("rate=7mbit"));

    let said = rig.reload("frames = 4096\nrate = \"8mbit\"\nqdisc = \"fifo:20\"\n");
    assert!(said.ends_with("f.toml:4: frames: takes a restart; the run goes on with what it had"), "{said}");
    assert!(rig.says().contains("rate=8mbit"), "the rest is in force");
    let said = rig.reload("rate = \"9mbit\"\nspeed = 3\n");
    assert!(
        said.contains("f.toml:5: \"speed\" is no key") && said.ends_with("; no setting changes"),
        "{said}"
    );
    let said = rig.reload("rate = \"9mbit\"\nqdisc = \"fifo:100000\"\n");
    assert!(said.contains("memory for") && said.ends_with("; no setting changes"), "{said}");
    assert_eq!((rig.setting("rate"), rig.setting("qdisc")), ("8000000bit".into(), "fifo:20".into()));
    std::fs::remove_file(rig.folder.path("f.toml")).unwrap();
    rig.forward.signal("HUP");
    let said = rig.says();
    assert!(said.contains("No such file") && said.ends_with("; no setting changes"), "{said}");
    let done = rig.end();
    assert_eq!(done.code, Some(0));
    assert_eq!(done.json()["directions"][0]["pool"]["out"], 0);
}

/// What `set` says is of the file as the other settings are: all of it is in force, or nothing, and what does not change stays.
#[test]
fn a_reload_takes_set_as_a_part_of_the_file() {
    let set = "set = [\"a-b.rate=5mbit\", \"qdisc=fifo:30\"]\n";
    let mut rig = Rig::new(set, &[]);
    assert!(rig.reload(set).ends_with("read again: no setting changes"));
    let said = rig.reload("batch = \"off\"\nset = [\"rate=5mbit\", \"burst=1\"]\n");
    assert!(said.contains("f.toml:5: --set burst=1") && said.ends_with("no setting changes"), "{said}");
    let said = rig.reload("batch = \"off\"\nset = [\"burst=64k\"]\n");
    assert!(
        said.contains("f.toml:5: --set burst: there is no rate") && said.ends_with("no setting changes"),
        "{said}"
    );
    assert_eq!((rig.setting("batching"), rig.setting("rate")), ("on".into(), "5000000bit".into()));
    let said = rig.reload("set = [\"a-b.rate=7mbit\", \"qdisc=fifo:30\"]\n");
    assert!(said.ends_with("read again: a-b: bucket=3500 rate=7mbit"), "{said}");
    assert_eq!(rig.end().code, Some(0));
}

#[test]
fn a_file_whose_settings_of_directions_are_wrong_opens_nothing() {
    for (set, what) in [
        ("a-b.rte=5", "\"rte\" is no key"),
        ("b-a.rate=5mbit", "\"b-a\" is no path: there is a-b"),
        ("rate=fast", "rate=fast: want a rate"),
    ] {
        let done = check(&format!("a = \"pcap:none.pcap\"\nb = \"null\"\nset = [\"{set}\"]\n"), &[]);
        assert!(done.code == Some(2) && done.line().contains(what), "{set}: {done:?}");
        assert!(done.line().contains("f.toml:3: --set"), "{done:?}");
    }
    let ports = "a = \"null\"\nb = \"wire\"\nports = [\"packet:lo\"]\n";
    assert_eq!(check(&format!("{ports}set = [\"p4.rate=5mbit\"]\n"), &[]).code, Some(2));
    assert_eq!(check(&format!("{ports}set = [\"p3.rate=5mbit\"]\n"), &[]).code, Some(0));
    for option in [["--flood-limit", "5"], ["--forget-after", "1s"]] {
        let done = check("a = \"null\"\nb = \"wire\"\n", &option);
        assert!(done.code == Some(2) && done.line().contains("of a switch"), "{done:?}");
    }
}

#[test]
fn a_mirror_that_was_moved_goes_on_in_a_new_file() {
    let folder = Folder::new();
    let mirror = folder.path("m.pcap");
    let settings = format!("mirror = \"{}\"\n", text(&mirror));
    let mut rig = Rig::new(&settings, &[]);
    std::fs::rename(&mirror, folder.path("m.pcap.1")).unwrap();
    assert!(rig.reload(&settings).ends_with("m.pcap: goes on in a new file"));
    assert!(rig.says().ends_with("no setting changes"));
    assert!(rig.reload(&settings).ends_with("no setting changes"), "it stays where it was not moved");
    assert_eq!(rig.end().code, Some(0));
    for name in ["m.pcap", "m.pcap.1"] {
        assert_eq!(std::fs::metadata(folder.path(name)).unwrap().len(), 24, "{name} has its header");
    }
}

/// The settings of what was unplugged, its counts and the mirror are those of the whole run.
#[test]
fn a_reload_that_replaces_all_ports_of_a_switch_keeps_its_mirror() {
    let folder = Folder::new();
    let [mirror, control] = ["m.pcap", "control"].map(|name| text(&folder.path(name)));
    let [guests, files] =
        [["g1", "g2"], ["f1", "f2"]].map(|names| names.map(|name| text(&folder.path(name))));
    let configure = |at: usize, rate: &str| {
        let (guest, file) = (&guests[at], &files[at]);
        let ends = format!("a = \"vhost-user:{guest}\"\nb = \"pcap:{file}\"\nports = [\"pcap:{file}2\"]\n");
        let more = format!("rate = \"{rate}\"\nmirror = \"{mirror}\"\ncontrol = \"{control}\"\n");
        folder.file("f.toml", format!("{ends}{more}").as_bytes())
    };
    let config = configure(0, "50mbit");
    let forward = Running::start(&["forward", "--config", &config, "--json"]);
    for (at, guest) in guests.iter().enumerate() {
        if at > 0 {
            configure(at, "60mbit");
            forward.signal("HUP");
        }
        until_path(&folder.path("control"), |path| path["from"] == format!("vhost-user:{guest}").as_str());
        let to = format!("virtio-user:{guest}");
        assert_eq!(wharf(&["send", "--count", "100", "--size", "60", "--to", &to]).code, Some(0));
    }
    forward.signal("TERM");
    let done = forward.finish();
    assert_eq!((done.code, &done.json()["mirror"]["frames"]), (Some(0), &400.into()), "{done:?}");
    let directions = done.json()["directions"].as_array().unwrap().clone();
    assert_eq!(directions.iter().map(|one| one["received_packets"].as_u64().unwrap()).sum::<u64>(), 200);
    assert_eq!(directions.len(), 6);
}

/// Messages until one comes that begins with `last`.
fn messages(listener: &UnixDatagram, last: &str) -> Vec<String> {
    let (mut messages, mut bytes) = (Vec::new(), [0; 4096]);
    let began = Instant::now();
    while messages.last().is_none_or(|message: &String| !message.starts_with(last)) {
        assert!(began.elapsed() < Duration::from_secs(60), "no {last} among {messages:?}");
        let count = match listener.recv(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            received => received.unwrap_or_else(|error| panic!("{error}: {messages:?}")),
        };
        messages.push(String::from_utf8(bytes[..count].to_vec()).unwrap());
    }
    messages
}

#[test]
fn a_service_manager_is_told_of_the_start_the_status_reloads_and_the_end() {
    let folder = Folder::new();
    let notify = folder.path("n");
    let listener = UnixDatagram::bind(&notify).unwrap();
    listener.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write(&folder, "");
    let config = text(&folder.path("f.toml"));
    let mut command = command(&["forward", "--config", &config, "--json", "-q"]);
    command.env("NOTIFY_SOCKET", notify).env("WATCHDOG_USEC", "400000");
    let forward = Running::of(&mut command);
    assert_eq!(messages(&listener, "READY=1"), ["READY=1"]);
    messages(&listener, "STATUS=to null 0 pps");
    messages(&listener, "WATCHDOG=1");
    forward.signal("HUP");
    let reload = messages(&listener, "READY=1");
    let told = reload.iter().find(|message| message.starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert!(
        told.is_some_and(|told| told.rsplit('=').next().unwrap().parse::<u64>().unwrap() > 0),
        "{reload:?}"
    );
    forward.signal("TERM");
    messages(&listener, "STOPPING=1");
    assert_eq!(forward.finish().code, Some(0));
}

#[test]
fn the_example_of_a_configuration_has_no_mistake() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/forward.toml");
    assert_eq!(wharf(&["forward", "--config", example, "--check"]).code, Some(0));
}
