//! Help, manual pages and completions say the same; output is as quiet, verbose and coloured as asked for.

use crate::common::manners::{
    assert_documented, assert_examples_fit, assert_names_itself, assert_pages, assert_short_help,
    completions, help, options, words,
};
use crate::common::{SAMPLE, command, finish, wharf};
use std::process::Command;

/// Every command, as words behind the program's name.
const COMMANDS: [&str; 11] = [
    "",
    "demo",
    "send",
    "receive",
    "forward",
    "devices",
    "doctor",
    "route get",
    "explain",
    "completions",
    "man",
];

#[test]
fn each_option_of_help_is_in_the_manual_and_completes() {
    assert_documented(&COMMANDS, "wharf", words);
}

#[test]
fn aliases_and_values_complete() {
    let named = options(&help("send", "--help", 100));
    assert!(named.contains("--speed") && named.contains("--rate"), "{named:?}");
    assert!(options(&help("forward", "--help", 100)).contains("--burst"));
    for (line, value) in [
        (&["wharf", "send", "--to", "pa"][..], "packet:"),
        (&["wharf", "receive", "--from", "x"], "xdp:"),
        (&["wharf", "forward", "--qdisc", "fq"], "fq_codel"),
        (&["wharf", "send", "--poll", "sl"], "sleeping"),
        (&["wharf", "comp"], "completions"),
        (&["wharf", "explain", "ring-f"], "ring-full"),
    ] {
        assert_eq!(completions("wharf", line), [value], "{line:?}");
    }
    // `null` sends only.
    assert!(!completions("wharf", &["wharf", "receive", "--from", ""]).contains(&"null".to_string()));
    for (shell, word) in [("zsh", "#compdef wharf"), ("fish", "complete -c wharf")] {
        let script = wharf(&["completions", shell]);
        assert!(script.code == Some(0) && script.stdout.contains(word), "{script:?}");
    }
}

#[test]
fn pages_are_written_and_groff_takes_them_without_a_warning() {
    assert_pages(&COMMANDS);
}

#[test]
fn short_help_has_a_line_for_each_option_and_long_help_keeps_all() {
    assert_short_help(&COMMANDS);
    let send = help("send", "-h", 100);
    assert!(send.lines().count() <= 74, "{send}");
}

#[test]
fn examples_fit_80_columns_and_name_the_program() {
    assert_examples_fit(&COMMANDS);
    assert_names_itself("wharf", "");
}

#[test]
fn version_names_compiler_devices_and_kernel() {
    let done = wharf(&["--version"]);
    let says = ["compiler: rustc 1.", "devices: null, wire,", "disciplines: fifo,", "kernel: Linux"];
    assert!(says.iter().all(|says| done.stdout.contains(says)), "{done:?}");
    let short = wharf(&["-V"]).stdout;
    assert_eq!(short.lines().count(), 1);
    let is_checkout = Command::new("git").args(["rev-parse", "HEAD"]).output();
    if let Some(head) = is_checkout.ok().filter(|head| head.status.success()) {
        // The commit at which it was built, which may be an earlier one.
        let commit = short.split_once("(commit ").map(|(_, commit)| commit.trim_end().trim_end_matches(')'));
        let is_commit = |commit: &str| commit.len() == 12 && commit.bytes().all(|c| c.is_ascii_hexdigit());
        assert!(commit.is_some_and(is_commit), "{short} at {head:?}");
    }
}

#[test]
fn quiet_leaves_errors_and_verbose_adds_what_is_opened() {
    let from = format!("pcap:{SAMPLE}");
    let receive = |more: &[&str]| wharf(&[&["receive", "--from", &from, "--json"], more].concat());
    assert!(receive(&[]).line().contains("reading"));
    assert_eq!(receive(&["--quiet"]).good_json()["packets"], 2200);
    assert_eq!(wharf(&["-q", "receive", "--from", &from, "--json"]).good_json()["packets"], 2200);
    let failed = wharf(&["-q", "receive", "--from", "pcap:no-such-file"]);
    assert!(failed.code == Some(1) && failed.line().contains("cannot open"), "{failed:?}");
    let verbose = receive(&["-v"]);
    assert!(verbose.stderr.contains("opened pcap:") && verbose.stderr.contains("reading"), "{verbose:?}");
    let sent = wharf(&["send", "-v", "--size", "60", "--count", "10", "--to", "null"]);
    for says in ["memory: 4096 frames of 2048 bytes", "opened null: sends by a ring of 256 frames"] {
        assert!(sent.stderr.contains(says), "{sent:?}");
    }
}

#[test]
fn log_has_records_with_time_level_and_device() {
    let from = format!("pcap:{SAMPLE}");
    let records = |args: &[&str]| {
        let done = wharf(&[args, &["--log", "json"]].concat());
        let read = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
        done.stderr.lines().map(read).collect::<Vec<_>>()
    };
    let all = records(&["receive", "--from", &from, "-v", "--json"]);
    let levels: Vec<&str> = all.iter().map(|record| record["level"].as_str().unwrap()).collect();
    assert_eq!(levels, ["DEBUG", "INFO"], "{all:?}");
    for record in &all {
        assert_eq!(record["device"], from.as_str(), "{record}");
        assert!(
            record["timestamp"].as_str().unwrap().ends_with('Z') && record["message"].is_string(),
            "{record}"
        );
    }
    assert_eq!(records(&["receive", "--from", &from, "-q", "--json"]), [serde_json::Value::Null; 0]);
    let failed = &records(&["send", "--size", "60", "--count", "1", "--to", "packet:no-such-if", "-q"])[..];
    let [failed] = failed else { panic!("one record: {failed:?}") };
    assert_eq!(
        (&failed["level"], &failed["device"]),
        (&"ERROR".into(), &"packet:no-such-if".into()),
        "{failed}"
    );
    let text = wharf(&["receive", "--from", &from, "--json", "--log", "text"]);
    assert!(text.stderr.contains("INFO reading pcap:"), "{text:?}");
}

#[test]
fn colours_are_as_asked_for() {
    let of = |args: &[&str], env: Option<&str>| {
        let mut command = command(args);
        command.envs(env.map(|name| (name, "1")));
        let done = finish(command.spawn().unwrap());
        done.stdout + &done.stderr
    };
    for wrong in [&["--help"][..], &["send", "--to", "x"]] {
        assert!(!of(wrong, None).contains('\x1b'), "{wrong:?}: no terminal");
        let always = [&["--color", "always"], wrong].concat();
        assert!(of(&always, None).contains('\x1b') && of(&always, Some("NO_COLOR")).contains('\x1b'));
        assert!(of(wrong, Some("CLICOLOR_FORCE")).contains('\x1b'), "{wrong:?}");
        let never = [wrong, &["--color=never"]].concat();
        assert!(!of(&never, Some("CLICOLOR_FORCE")).contains('\x1b'), "{wrong:?}");
    }
}
