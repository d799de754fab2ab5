//! `wharf explain` knows each word of tables, of the JSON, of its verdicts and of the guide's concepts.

use crate::common::show::{answered, until_path};
use crate::common::{Folder, Running, SAMPLE, text, wharf};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// Values of `bounded_by`, and of other keys that are words.
const VALUES: &str = "rate device host link receiver processor senders count nothing native generic copy \
    zerocopy works fails untried obstacle hint fact";

/// Words of the guide that no table has, and that it does not explain itself.
const OF_THE_GUIDE: &str = "huge-pages,locked-memory,capability,namespace,virtqueue,umem,headroom,segmented,AF_XDP,\
    AF_PACKET,features,switch,flood,station,offload,rights,napi,numa,helper,program,promisc,steer,persist,target";

/// Adds the keys of all objects, but for those that are names of reasons: these have a test of their own.
fn keys(value: &Value, words: &mut BTreeSet<String>) {
    match value {
        Value::Object(all) => all.iter().for_each(|(key, value)| {
            words.insert(key.clone());
            keys(value, words);
        }),
        Value::Array(all) => all.iter().for_each(|value| keys(value, words)),
        _ => {}
    }
}

/// Adds the names of rows: what stands before two blanks at the begin of a line.
fn rows(table: &str, words: &mut BTreeSet<String>) {
    let is_row = |line: &&str| line.starts_with(|letter: char| letter.is_ascii_lowercase());
    let name = |line: &str| Some(line.split_once("  ")?.0.trim().to_string());
    words.extend(table.lines().filter(is_row).filter_map(name));
}

/// Calls `see` with each source file below `folder`.
fn each_source(folder: &Path, see: &mut impl FnMut(&str)) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true => each_source(&path, see),
            false => see(&std::fs::read_to_string(&path).unwrap_or_default()),
        }
    }
}

/// Adds the fields of the structs that are printed as JSON: few runs have all of them.
fn fields(source: &str, words: &mut BTreeSet<String>) {
    let (mut is_printed, mut is_inside, mut is_left_out) = (false, false, false);
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[derive(") {
            is_printed = line.contains("Serialize");
        } else if !is_inside {
            is_inside = is_printed && line.contains("struct ") && line.ends_with('{');
        } else if line == "}" {
            (is_printed, is_inside) = (false, false);
        } else if line.starts_with("#[serde(") {
            is_left_out = ["(skip)", "(flatten)", "(rename "].iter().any(|word| line.contains(word));
        } else if let Some((name, _)) = line.split_once(": ").filter(|_| !line.starts_with("//")) {
            words.extend((!is_left_out).then(|| name.rsplit(' ').next().unwrap().to_string()));
            is_left_out = false;
        }
    }
}

/// Adds the names of the rows of the tables.
fn names_of_rows(source: &str, words: &mut BTreeSet<String>) {
    for part in source.split("(\"").skip(1) {
        let (name, after) = part.split_once('"').unwrap();
        let is_row = after.starts_with(", ") || after.starts_with(".into(), ");
        let is_name = name.chars().all(|letter| letter.is_alphanumeric() || " ,".contains(letter));
        words.extend((is_row && is_name && !name.is_empty()).then(|| name.trim().to_string()));
    }
}

/// Adds the subjects of the findings of `wharf doctor`.
fn subjects(source: &str, words: &mut BTreeSet<String>) {
    for made in ["Finding::fact(", "Finding::hint(", "Finding::obstacle("] {
        let behind = source.split(made).skip(1).filter_map(|part| part.trim_start().strip_prefix('"'));
        words.extend(behind.filter_map(|part| Some(part.split_once('"')?.0.to_string())));
    }
}

/// Adds the values of keys that are words.
fn values(value: &Value, words: &mut BTreeSet<String>) {
    const KEYS: [&str; 4] = ["verdict", "weight", "subject", "direction"];
    match value {
        Value::Object(all) => {
            words.extend(KEYS.iter().filter_map(|key| all.get(*key)?.as_str()).map(String::from));
            all.values().for_each(|value| values(value, words));
        }
        Value::Array(all) => all.iter().for_each(|value| values(value, words)),
        _ => {}
    }
}

fn shown_by_a_run(words: &mut BTreeSet<String>) {
    let folder = Folder::new();
    let (control, from) = (text(&folder.path("control")), format!("pcap:{SAMPLE}"));
    let run = Running::start(&["forward", &from, "null", "--rate", "8kbit", "--control", &control]);
    until_path(&folder.path("control"), |path| path["backlog_packets"].as_u64() > Some(0));
    rows(&answered(&["show", &control]).stdout, words);
    keys(&answered(&["show", &control, "--json"]).json(), words);
    run.end();
}

#[test]
fn each_word_that_is_printed_is_explained() {
    let words = VALUES.split_whitespace().chain(OF_THE_GUIDE.split(','));
    let mut words: BTreeSet<String> = words.map(String::from).collect();
    let from = format!("pcap:{SAMPLE}");
    for run in [
        &["send", "--imix", "--count", "1000"][..],
        &["send", "null", "--size", "60", "--rate", "10kpps", "--count", "100", "--qdisc", "fq_codel"],
        &["receive", &from],
        &["forward", &from, "null", "--qdisc", "prio"],
    ] {
        let table = wharf(run).stdout;
        // The table ends before the verdict's sentences.
        rows(&table, &mut words);
        keys(&wharf(&[run, &["--json"]].concat()).json(), &mut words);
    }
    for list in [
        &["devices", "--json"][..],
        &["doctor", "lo", "--no-probe", "--json"],
        &["explain", "dropped", "--json"],
    ] {
        let listing = wharf(list).json();
        keys(&listing, &mut words);
        values(&listing, &mut words);
    }
    shown_by_a_run(&mut words);
    let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
    each_source(source, &mut |text| fields(text, &mut words));
    each_source(&source.join("../../wharf-tools/src"), &mut |text| fields(text, &mut words));
    for crate_of in ["wharf-devices", "wharf-intel", "wharf-verbs", "wharf-route"] {
        each_source(&source.join("../..").join(crate_of).join("src"), &mut |text| subjects(text, &mut words));
    }
    for tables in ["send/table.rs", "receive/table.rs", "forward/table.rs", "watch/text.rs"] {
        names_of_rows(&std::fs::read_to_string(source.join(tables)).unwrap(), &mut words);
    }
    let concepts = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/concepts.md");
    let concepts = std::fs::read_to_string(concepts).unwrap();
    let (_, terms) = concepts.split_once("| term | meaning |").unwrap();
    for line in terms.lines().skip(2).take_while(|line| line.starts_with("| ")) {
        words.extend(line.trim_start_matches("| ").split(" |").next().unwrap().split(", ").map(String::from));
    }
    assert!(words.len() > 150, "{words:?}");
    let unknown: Vec<&String> =
        words.iter().filter(|word| wharf(&["explain", word]).code != Some(0)).collect();
    assert!(unknown.is_empty(), "no row of crates/wharf-cli/src/explain/words.txt: {unknown:?}");
}
