//! Help, manual pages and completions say the same; output is as quiet, verbose and coloured as asked for.

mod common;

use common::{Folder, SAMPLE, command, finish, text, wharf};
use std::collections::BTreeSet;
use std::process::Command;

/// Every command, as words behind the program's name.
const COMMANDS: [&str; 17] = [
    "",
    "demo",
    "send",
    "receive",
    "forward",
    "plan",
    "lab list",
    "lab run",
    "lab sweep",
    "bench path",
    "bench device",
    "devices",
    "doctor",
    "explain",
    "completions",
    "man",
    "lab",
];

fn words(command: &str) -> Vec<&str> {
    command.split_whitespace().collect()
}

/// Returns the output of a command with an argument, at a width in columns.
fn help(of: &str, flag: &str, columns: u32) -> String {
    let mut asked = command(&[&words(of)[..], &[flag]].concat());
    let done = finish(asked.env("COLUMNS", columns.to_string()).spawn().unwrap());
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{of} {flag}");
    done.stdout
}

/// Returns the long names of the options that a help text lists, with their aliases.
fn options(help: &str) -> BTreeSet<String> {
    let named = |line: &str| {
        // Text is further to the right.
        let indent = line.len() - line.trim_start().len();
        let is_option = line.trim_start().starts_with('-') && (2..=6).contains(&indent);
        let all = if is_option { line } else { line.split_once("[alias: ").map_or("", |(_, alias)| alias) };
        let words: Vec<&str> = all.split([' ', ',', ']', '.']).collect();
        let mut names = words.into_iter().filter(|word| word.starts_with("--"));
        names.next().map(str::to_string)
    };
    help.lines().filter_map(named).collect()
}

/// Asks bash for completions of the last word.
fn completions(line: &[&str]) -> Vec<String> {
    let script = r#"
        source "$1"; shift
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        name=$(complete -p wharf | sed 's/.*-F \([^ ]*\).*/\1/')
        "$name" wharf "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let folder = Folder::new();
    let file = folder.file("wharf.bash", wharf(&["completions", "bash"]).stdout.as_bytes());
    let asked = Command::new("bash").args(["-c", script, "bash", &file]).args(line).output().unwrap();
    assert!(asked.status.success() && asked.stderr.is_empty(), "{line:?}: {asked:?}");
    String::from_utf8(asked.stdout).unwrap().lines().map(str::to_string).collect()
}

#[test]
fn each_option_of_help_is_in_the_manual_and_completes() {
    for of in COMMANDS {
        let named = options(&help(of, "--help", 100));
        assert!(named.contains("--help") && named.contains("--color"), "{of}: {named:?}");
        let page = wharf(&[&["man"], &words(of)[..]].concat()).stdout.replace("\\-", "-");
        let completed = completions(&[&["wharf"], &words(of)[..], &["--"]].concat());
        for option in &named {
            assert!(
                page.lines().any(|line| line.contains(&format!("{option}\\fR"))
                    || line.contains(&format!("[alias: {option}]"))),
                "{of} {option}: {page}"
            );
            assert!(completed.contains(option), "{of} {option}: {completed:?}");
        }
    }
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
        (&["wharf", "lab", "run", "bq"], "bql"),
        (&["wharf", "explain", "ring-f"], "ring-full"),
    ] {
        assert_eq!(completions(line), [value], "{line:?}");
    }
    // `null` sends only.
    assert!(!completions(&["wharf", "receive", "--from", ""]).contains(&"null".to_string()));
    for (shell, word) in [("zsh", "#compdef wharf"), ("fish", "complete -c wharf")] {
        let script = wharf(&["completions", shell]);
        assert!(script.code == Some(0) && script.stdout.contains(word), "{script:?}");
    }
}

#[test]
fn pages_are_written_and_groff_takes_them_without_a_warning() {
    let folder = Folder::new();
    let done = wharf(&["man", &text(&folder.path(""))]);
    assert_eq!((done.code, done.stderr.as_str(), done.stdout.as_str()), (Some(0), "", ""));
    for of in COMMANDS {
        let name = [&["wharf"], &words(of)[..]].concat().join("-");
        let path = text(&folder.path(&format!("{name}.1")));
        let page = std::fs::read_to_string(&path).unwrap();
        assert!(
            page.contains(".SH NAME")
                && page.contains(&format!(".TH {} 1", name.to_uppercase().replace('-', "\\-")))
                || page.contains(&format!(".TH {} 1", name.to_uppercase())),
            "{page}"
        );
        if let Ok(groff) = Command::new("groff").args(["-man", "-ww", "-z", "-Tutf8", &path]).output() {
            assert!(groff.status.success() && groff.stderr.is_empty(), "{path}: {groff:?}");
        }
    }
}

#[test]
fn short_help_has_a_line_for_each_option_and_long_help_keeps_all() {
    for (of, columns) in COMMANDS.into_iter().flat_map(|of| [(of, 80), (of, 100)]) {
        let (short, long) = (help(of, "-h", columns), help(of, "--help", 100));
        assert_eq!(options(&short).difference(&options(&long)).count(), 0, "{of}");
        let long_options: BTreeSet<String> = options(&long);
        for option in &long_options {
            assert!(short.contains(option.as_str()), "{of} {option}: {short}");
        }
        let listed =
            short.lines().skip_while(|line| !line.ends_with(':')).filter(|line| line.starts_with(' '));
        for line in listed {
            let starts = ["-", "<", "["].iter().any(|start| line.trim_start().starts_with(start));
            let is_command = line.starts_with("  ") && !line.starts_with("   ");
            assert!((starts || is_command) && line.chars().count() <= columns as usize, "{of}: {line}");
        }
        assert!(!short.contains("Examples:"), "{of}");
    }
    let send = help("send", "-h", 100);
    assert!(send.lines().count() <= 72, "{send}");
}

#[test]
fn examples_fit_80_columns() {
    for (of, columns) in COMMANDS.into_iter().flat_map(|of| [(of, 80), (of, 100)]) {
        let long = help(of, "--help", columns);
        let Some((_, after)) = long.split_once("Examples:\n") else { continue };
        for line in after.lines().take_while(|line| !line.is_empty()) {
            assert!(line.starts_with("  ") && line.chars().count() <= 80, "{of}, {columns} columns: {line}");
        }
    }
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
