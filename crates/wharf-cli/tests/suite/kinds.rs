//! Each kind of device that the command has says what a user wants to know of it; and each word that frames are counted by as
//! failed or dropped, in any crate of the path, has a row in the table of reasons.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use wharf::device::Registry;
use wharf_cli::Registries;
use wharf_core::options::Values;
use wharf_devices::reasons::Reason;

/// Crates that count frames by reason, and whether the command is built with them.
const CRATES: [(&str, bool); 7] = [
    ("wharf-core", true),
    ("wharf-packet", true),
    ("wharf-devices", true),
    ("wharf-intel", cfg!(feature = "intel")),
    ("wharf-verbs", cfg!(feature = "verbs")),
    ("wharf", true),
    ("wharf-tools", true),
];
/// Texts in front of a word that is a reason.
const BEFORE: [&str; 12] = [
    "Failed(",
    "Fail(",
    "Err(",
    "Err((",
    ".add(",
    "see(",
    "dropped(",
    "unwrap_or(",
    "withdraw(",
    "(frame, ",
    "=> (",
    "&str = ",
];
/// Words of such a form that are no reasons.
const NO_REASONS: &[&str] = &[
    "a-b",
    "vfio-pci",
    "pci-stub",
    "another",
    "busy-budget",
    "busy-poll",
    "rx-",
    "user-namespace",
    "wharf",
    "b-a",
    "block",
    "device",
    "directory",
    "flows",
    "marked",
    "packets",
    "prio",
    "fifo",
    "packet",
    "socket",
    "tbf",
    "vhost-user",
    "virtio-user",
    "virtio-patience",
    "zero-copy",
    "unswitched-off",
    "foreign",
    "limit",
    "flow-limit",
];
/// Folders, or files, of kinds of devices, whose words must have a row for that kind.
const KINDS: [&str; 8] = ["packet", "pcap", "tap", "udp", "vhost-user", "virtio-user", "wire", "xdp"];
/// Crates of kinds, and one of their kinds: all kinds of a crate count by the same words.
const KINDS_OF_CRATES: [(&str, &str); 2] = [("wharf-intel/src/", "e1000"), ("wharf-verbs/src/", "verbs")];

/// Returns the table, with the words of every kind that the command has.
fn rows() -> Vec<Reason> {
    Registries::default().devices.reasons()
}

/// Returns the files of Rust below `folder`, without tests.
fn files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            files(&path, into);
        } else if name.ends_with(".rs") && name != "tests.rs" && name != "table.rs" {
            into.push(path);
        }
    }
}

/// Calls `see` with each word in lower case that `line` quotes, and with the text in front of it.
fn quoted<'a>(line: &'a str, mut see: impl FnMut(&'a str, &'a str)) {
    let mut at = 0;
    for (number, part) in line.split('"').enumerate() {
        let is_word = part.starts_with(|first: char| first.is_ascii_lowercase())
            && part.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-');
        if number % 2 == 1 && is_word {
            see(&line[..at - 1], part);
        }
        at += part.len() + 1;
    }
}

fn is_reason(line: &str, before: &str, word: &str) -> bool {
    if NO_REASONS.contains(&word) || word.starts_with("wharf-") {
        return false;
    }
    // The value of a block.
    let is_alone = line.trim() == format!("\"{word}\"");
    let is_counted =
        BEFORE.iter().any(|text| before.ends_with(text)) || before.contains("fail") && before.ends_with(", ");
    word.contains('-') || is_counted || is_alone
}

/// Returns the words of the sources, with the files and lines that have them.
fn words() -> BTreeMap<String, Vec<(PathBuf, usize)>> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut all = Vec::new();
    let built = CRATES.iter().filter(|(_, is_built)| *is_built);
    built.for_each(|(name, _)| files(&crates.join(name).join("src"), &mut all));
    let mut words: BTreeMap<String, Vec<(PathBuf, usize)>> = BTreeMap::new();
    for file in all {
        let text = fs::read_to_string(&file).unwrap();
        let source = text.split("#[cfg(test)]").next().unwrap();
        for (number, line) in source.lines().enumerate().filter(|(_, line)| !line.trim().starts_with("//")) {
            quoted(line, |before, word| {
                if is_reason(line, before, word) {
                    words.entry(word.into()).or_default().push((file.clone(), number + 1));
                }
            });
        }
    }
    for reason in wharf_route::Reason::ALL {
        words.entry(reason.name().into()).or_default().push(("wharf-route".into(), 0));
    }
    words
}

#[test]
fn each_word_of_the_sources_has_a_row() {
    let words = words();
    assert!(words.len() > 30, "{:?}", words.keys());
    let rows = rows();
    let missing: Vec<_> =
        words.iter().filter(|(word, _)| rows.iter().all(|row| row.word != word.as_str())).collect();
    assert!(missing.is_empty(), "no row in crates/wharf-devices/src/reasons/table.rs: {missing:#?}");
}

#[test]
fn each_device_has_a_row_for_its_words() {
    let (rows, mut missing) = (rows(), Vec::new());
    for (word, places) in words() {
        let of_word = rows.iter().filter(|row| row.word == word);
        let devices: BTreeSet<&str> = of_word.flat_map(|row| row.devices.iter()).copied().collect();
        for (file, line) in places {
            let path = file.to_string_lossy().replace('_', "-");
            let of_crate = KINDS_OF_CRATES.iter().find(|(folder, _)| path.contains(folder));
            let of_devices = || {
                KINDS.iter().find(|kind| {
                    path.contains(&format!("devices/src/{kind}/"))
                        || path.ends_with(&format!("devices/src/{kind}.rs"))
                })
            };
            let kind = of_crate.map(|(_, kind)| kind).or_else(of_devices);
            if kind.is_some_and(|kind| !devices.contains(kind) && !devices.contains("any")) {
                missing.push((word.clone(), kind, file, line));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn each_row_is_of_a_word_in_the_sources() {
    let (rows, words) = (rows(), words());
    let unused: Vec<&str> =
        rows.iter().map(|row| row.word).filter(|word| !words.contains_key(*word)).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn texts_are_sentences() {
    for reason in rows() {
        for text in [reason.what_happened, reason.what_to_do] {
            let begins = text.starts_with(|first: char| first.is_uppercase() || first == '`');
            assert!(begins && text.ends_with('.') && !text.contains('\n'), "{}: {text}", reason.word);
        }
    }
}

#[test]
fn each_kind_is_listed_once_and_usage_shows_its_keys() {
    let registry = Registries::default().devices;
    for kind in registry.kinds() {
        assert_eq!(
            registry.kinds().iter().filter(|other| other.name == kind.name).count(),
            1,
            "{}",
            kind.name
        );
        assert!(kind.usage.starts_with(kind.name) && Registry::default().with(kind).is_ok());
        for key in [kind.keys, kind.tx_keys, kind.rx_keys].concat() {
            assert!(kind.usage.contains(&format!("{}=", key.name)), "{}: {}", kind.name, key.name);
            if let Values::OneOf(words) = key.values {
                assert_eq!(key.default, words[0]);
                assert!(kind.usage.contains(&format!("{}={}", key.name, words.join("|"))), "{}", key.name);
            }
        }
    }
}

#[test]
fn each_key_of_each_kind_says_when_to_change_it() {
    for kind in Registries::default().devices.kinds() {
        for key in [kind.keys, kind.tx_keys, kind.rx_keys].concat() {
            let texts = [key.meaning, key.when, key.default];
            let is_good = texts.iter().all(|text| !text.is_empty() && !text.ends_with('.'));
            assert!(is_good, "{}: {key:?}", kind.name);
        }
    }
}

#[test]
#[cfg(all(feature = "intel", feature = "verbs"))]
fn the_command_has_the_adapters_of_other_crates() {
    let registry = Registries::default().devices;
    let names: Vec<&str> = registry.kinds().iter().map(|kind| kind.name).collect();
    let behind = ["udp", "verbs", "vhost-user", "virtio-user", "e1000", "igb", "net"];
    assert!(names.ends_with(&behind), "{names:?}");
}
