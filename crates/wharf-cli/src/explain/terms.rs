//! The dictionary: words of tables, verdicts and JSON, one a line of `words.txt`, and those that the command line
//! and the registries know.

use crate::Registries;
use crate::args;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// Word, other words for it, commands that show it, meaning, and what a high or a low value says.
const WORDS: &str = include_str!("words.txt");

/// A word, and its meaning.
#[derive(Debug, Clone)]
pub(super) struct Term {
    /// As tables have it.
    pub(super) word: String,
    /// Keys of the JSON that mean the same, and rows of other tables.
    pub(super) others: Vec<&'static str>,
    /// Commands that show it.
    pub(super) commands: String,
    pub(super) meaning: String,
    /// Meaning of a high or a low value.
    pub(super) reading: &'static str,
}

impl Term {
    fn of(line: &'static str) -> Option<Self> {
        let [word, others, commands, meaning, reading] = line.split('|').collect::<Vec<_>>()[..] else {
            return None;
        };
        let others = others.split(", ").filter(|other| !other.is_empty()).collect();
        Some(Self { word: word.into(), others, commands: commands.into(), meaning: meaning.into(), reading })
    }

    fn known(word: String, commands: String, meaning: String) -> Self {
        Self { word, others: Vec::new(), commands, meaning, reading: "" }
    }
}

/// Returns the words of the tables.
pub(super) fn terms() -> &'static [Term] {
    static TERMS: OnceLock<Vec<Term>> = OnceLock::new();
    TERMS.get_or_init(|| WORDS.lines().filter_map(Term::of).collect())
}

/// Returns the kinds of devices and disciplines, their keys, and the options of commands, as help has them.
pub(super) fn known(registries: &Registries) -> Vec<Term> {
    let device = |kind: &&wharf_devices::spec::Kind| {
        let meaning =
            format!("A kind of device: {}. `wharf devices {}` has its keys.", kind.summary, kind.name);
        Term::known(kind.name.into(), "devices".into(), meaning)
    };
    let qdisc = |kind: &&wharf::qdisc::QdiscKind| {
        let meaning = format!("A queueing discipline: {}. Syntax: {}.", kind.summary, kind.usage);
        Term::known(kind.name.into(), "send, forward".into(), meaning)
    };
    // Kinds whose keys mean the same have one row for it.
    let mut keys: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    let of_devices = registries.devices.kinds().iter();
    let of_devices = of_devices.flat_map(|kind| {
        [kind.keys, kind.tx_keys, kind.rx_keys].concat().into_iter().map(|key| (kind.name, key))
    });
    let of_qdiscs = registries.qdiscs.kinds().iter();
    let of_qdiscs = of_qdiscs.flat_map(|kind| kind.keys.iter().map(|key| (kind.name, *key)));
    for (kind, key) in of_devices.chain(of_qdiscs) {
        keys.entry((key.name, key.meaning)).or_default().insert(kind);
    }
    let keys = keys.into_iter().map(|((name, meaning), kinds)| {
        let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
        Term::known(name.into(), "devices, send".into(), format!("A key of {kinds}: {meaning}."))
    });
    let mut options: BTreeMap<String, (Vec<String>, String)> = BTreeMap::new();
    for command in args::command(registries).get_subcommands() {
        for arg in command.get_arguments() {
            let (Some(long), Some(help)) = (arg.get_long(), arg.get_help()) else { continue };
            let one = options.entry(long.into()).or_insert_with(|| (Vec::new(), format!("{help}.")));
            one.0.push(command.get_name().into());
        }
    }
    let options =
        options.into_iter().map(|(long, (commands, help))| Term::known(long, commands.join(", "), help));
    let kinds = registries.devices.kinds().iter().map(device);
    kinds.chain(registries.qdiscs.kinds().iter().map(qdisc)).chain(keys).chain(options).collect()
}
