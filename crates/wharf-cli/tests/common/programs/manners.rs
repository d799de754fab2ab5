//! Help, manual pages and completions of a program say the same.

use super::{Folder, command, finish, text, wharf};
use std::collections::BTreeSet;
use std::process::Command;

pub fn words(command: &str) -> Vec<&str> {
    command.split_whitespace().collect()
}

/// Returns the output of a command with an argument, at a width in columns.
pub fn help(of: &str, flag: &str, columns: u32) -> String {
    let mut asked = command(&[&words(of)[..], &[flag]].concat());
    let done = finish(asked.env("COLUMNS", columns.to_string()).spawn().unwrap());
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{of} {flag}");
    done.stdout
}

/// Returns the long names of the options that a help text lists, with their aliases.
pub fn options(help: &str) -> BTreeSet<String> {
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

/// Asks bash for completions of the last word, by what the program prints for `name`, which is its own.
pub fn completions(name: &str, line: &[&str]) -> Vec<String> {
    let script = r#"
        source "$1"; program=$2; shift 2
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        name=$(complete -p "$program" | sed 's/.*-F \([^ ]*\).*/\1/')
        "$name" "$program" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let folder = Folder::new();
    let file = folder.file("completions.bash", wharf(&["completions", "bash"]).stdout.as_bytes());
    let asked = Command::new("bash").args(["-c", script, "bash", &file, name]).args(line).output().unwrap();
    assert!(asked.status.success() && asked.stderr.is_empty(), "{line:?}: {asked:?}");
    String::from_utf8(asked.stdout).unwrap().lines().map(str::to_string).collect()
}

/// Asserts that each option of help is in the manual and completes. `line` makes the words of the program called `name` from those of a
/// command.
pub fn assert_documented(commands: &[&str], name: &str, line: fn(&str) -> Vec<&str>) {
    for &of in commands {
        let named = options(&help(of, "--help", 100));
        assert!(named.contains("--help") && named.contains("--color"), "{of}: {named:?}");
        let page = wharf(&[&["man"], &words(of)[..]].concat()).stdout.replace("\\-", "-");
        let completed = completions(name, &[&[name], &line(of)[..], &["--"]].concat());
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

/// Asserts that examples name the program, called `name`, and that its page is that of the command `of` by default.
pub fn assert_names_itself(name: &str, of: &str) {
    let [completions, man] = ["completions", "man"].map(|command| help(command, "--help", 100));
    assert!(completions.contains(&format!("source <({name} completions bash)")), "{completions}");
    assert!(man.contains(&format!("  {name} man ")), "{man}");
    assert_eq!(wharf(&["man"]).stdout, wharf(&[&["man"], &words(of)[..]].concat()).stdout);
}

/// Asserts that a page of each command is written, and that groff takes it without a warning.
pub fn assert_pages(commands: &[&str]) {
    let folder = Folder::new();
    let done = wharf(&["man", &text(&folder.path(""))]);
    assert_eq!((done.code, done.stderr.as_str(), done.stdout.as_str()), (Some(0), "", ""));
    for of in commands {
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

/// Asserts that short help has a line for each option, and long help keeps all.
pub fn assert_short_help(commands: &[&str]) {
    for (of, columns) in commands.iter().flat_map(|of| [(of, 80), (of, 100)]) {
        let (short, long) = (help(of, "-h", columns), help(of, "--help", 100));
        assert_eq!(options(&short).difference(&options(&long)).count(), 0, "{of}");
        // What is for tests and tuning stands in the long help alone.
        let mut heading = "";
        let listed = long.lines().filter(|line| {
            heading = if line.ends_with(':') && !line.starts_with(' ') { line } else { heading };
            heading != "Tests and tuning:"
        });
        let long_options: BTreeSet<String> = options(&listed.collect::<Vec<_>>().join("\n"));
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
}

/// Asserts that examples fit 80 columns.
pub fn assert_examples_fit(commands: &[&str]) {
    for (of, columns) in commands.iter().flat_map(|of| [(of, 80), (of, 100)]) {
        let long = help(of, "--help", columns);
        let Some((_, after)) = long.split_once("Examples:\n") else { continue };
        for line in after.lines().take_while(|line| !line.is_empty()) {
            assert!(line.starts_with("  ") && line.chars().count() <= 80, "{of}, {columns} columns: {line}");
        }
    }
}
