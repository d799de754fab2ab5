//! The guide's tables that come from the program, its list of chapters, and the errors that it quotes.
//! `WHARF_BLESS=1 cargo test -p wharf-cli --test suite guide` writes the tables.

use crate::common::{SAMPLE, wharf};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide");

/// The files below `folder` with this extension.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let mut files: Vec<_> =
        files.into_iter().filter(|path| path.extension().is_some_and(|is| is == extension)).collect();
    files.extend(folders.iter().flat_map(|folder| self::files(folder, extension)));
    files.sort();
    files
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_else(|| panic!("{key}: {row}"))
}

/// The table of a device's keys.
fn keys_of(kind: &str) -> String {
    let mut table =
        "| key | values | default | to | meaning; when to change it |\n|---|---|---|---|---|\n".to_owned();
    let listing = wharf(&["devices", kind, "--json"]).good_json();
    for row in listing["devices"][0]["keys"].as_array().unwrap() {
        let [key, values, default, direction, meaning, when] =
            ["key", "values", "default", "direction", "meaning", "when"].map(|key| text(row, key));
        let values = values.replace('|', ", ");
        writeln!(table, "| `{key}` | {values} | {default} | {direction} | {meaning}. {when} |").unwrap();
    }
    table
}

/// The table of all reasons of drops.
fn reasons() -> String {
    let mut table = "| reason | counted by | what happened | what to do |\n|---|---|---|---|\n".to_owned();
    let listing = wharf(&["explain", "--json"]).good_json();
    for row in listing["reasons"].as_array().unwrap() {
        let devices: Vec<_> =
            row["devices"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        let (word, happened, remedy) =
            (text(row, "word"), text(row, "what_happened"), text(row, "what_to_do"));
        writeln!(table, "| `{word}` | {} | {happened} | {remedy} |", devices.join(", ")).unwrap();
    }
    table
}

/// The page with its generated tables as the program has them now.
fn with_tables(page: &str) -> String {
    let mut new = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once("<!-- generated: ") {
        let (command, after) = after.split_once(" -->\n").unwrap();
        let (_, after) = after.split_once("<!-- end -->").unwrap_or_else(|| panic!("{command}: no end"));
        let table = command.strip_prefix("devices ").map_or_else(reasons, keys_of);
        write!(new, "{before}<!-- generated: {command} -->\n\n{table}\n<!-- end -->").unwrap();
        rest = after;
    }
    new + rest
}

#[test]
fn tables_of_keys_and_reasons_are_those_of_the_program() {
    let mut tables = 0;
    for path in files(Path::new(GUIDE), "md") {
        let page = fs::read_to_string(&path).unwrap();
        tables += page.matches("<!-- generated: ").count();
        let new = with_tables(&page);
        if std::env::var_os("WHARF_BLESS").is_some() {
            fs::write(&path, &new).unwrap();
        } else {
            assert!(page == new, "{} is not up to date: WHARF_BLESS=1 writes it", path.display());
        }
    }
    let listing = wharf(&["devices", "--json"]).good_json();
    let with_keys = |device: &&Value| !device["keys"].as_array().unwrap().is_empty();
    let kinds = listing["devices"].as_array().unwrap().iter().filter(with_keys).count();
    assert_eq!(tables, kinds + 1, "a table for each kind with keys, and one of reasons");
}

#[test]
fn each_key_of_the_json_is_in_the_chapter_about_it() {
    let page = fs::read_to_string(Path::new(GUIDE).join("summary.md")).unwrap();
    let sent = wharf(&["send", "--size", "60", "--count", "10", "--to", "null", "--json"]).good_json();
    let received = wharf(&["receive", "-q", "--from", &format!("pcap:{SAMPLE}"), "--json"]).good_json();
    let capture = format!("pcap:{SAMPLE}");
    let copy = format!("pcap:{}/guide.pcap", env!("CARGO_TARGET_TMPDIR"));
    let forwarded = wharf(&["forward", "-q", &capture, &copy, "--json"]).good_json();
    for report in [&sent, &received, &forwarded, &forwarded["directions"][0]] {
        for key in report.as_object().unwrap().keys() {
            assert!(page.contains(&format!("`{key}`")), "docs/guide/summary.md lacks {key}");
        }
    }
}

#[test]
fn each_page_is_a_chapter() {
    let summary = fs::read_to_string(Path::new(GUIDE).join("SUMMARY.md")).unwrap();
    for path in files(Path::new(GUIDE), "md") {
        let name = path.strip_prefix(GUIDE).unwrap().to_str().unwrap();
        assert!(
            name == "SUMMARY.md" || summary.contains(&format!("]({name})")),
            "{name} is not in SUMMARY.md"
        );
    }
}

/// The first cells of the table of errors, between backquotes: `...` stands for what varies.
#[test]
fn each_error_of_the_guide_is_one_of_the_program() {
    let page = fs::read_to_string(Path::new(GUIDE).join("troubleshooting.md")).unwrap();
    let crates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let source: String = files(crates, "rs").iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let source = source.replace("\\\n", "");
    let source = source.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, table) = page.split_once("## By error line").unwrap();
    let rows =
        table.lines().take_while(|line| !line.starts_with("## ")).filter_map(|line| line.strip_prefix("| `"));
    let errors: Vec<_> = rows.map(|row| row.split_once("` |").unwrap().0).collect();
    assert!(errors.len() > 10, "{errors:?}");
    for part in
        errors.iter().flat_map(|error| error.split("...")).map(str::trim).filter(|part| !part.is_empty())
    {
        assert!(source.contains(part), "no error of the program has {part:?}");
    }
}

/// The numbers of a text, such as 1.34 and 200.
fn numbers(text: &str) -> Vec<&str> {
    let parts = text.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
    parts.map(|part| part.trim_matches('.')).filter(|part| !part.is_empty()).collect()
}

/// Each in the sections that name the command behind it.
#[test]
fn each_figure_of_the_readme_is_on_the_page_of_benchmarks() {
    let read = |path: &str| fs::read_to_string(Path::new(GUIDE).join("../..").join(path)).unwrap();
    let (readme, bench) = (read("README.md"), read("bench/README.md"));
    let (_, table) = readme.split_once("## Performance beside other tools").unwrap();
    let rows: Vec<_> = table.lines().filter(|line| line.ends_with(".sh` |")).collect();
    assert!(rows.len() >= 6, "{rows:?}");
    for row in rows {
        let (figures, command) = row.trim_end_matches("` |").rsplit_once("| `").unwrap();
        let sections: String =
            bench.split("\n## ").skip(1).filter(|section| section.contains(command)).collect();
        let there = numbers(&sections);
        for figure in numbers(figures) {
            assert!(there.contains(&figure), "bench/README.md lacks {figure} of: {row}");
        }
    }
}
