//! `wharf explain`: the reasons of drops, and the words of tables, verdicts and JSON.

mod terms;

use crate::args::ExplainArgs;
use crate::fold::{folded, paragraph};
use crate::output::{print, print_json};
use crate::{Registries, usage};
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use strsim::levenshtein;
use terms::{Term, known as known_elsewhere, terms};
use wharf_devices::reasons::Reason;
use wharf_devices::registry::Registry;

/// Most words that an unknown one is answered with.
const NEAREST_MAX: usize = 3;
/// Ends of the names of rows that have percentiles, or a line for each band.
const SUFFIXES: [&str; 6] = [" p50", " p99", " p999", " max", " by band", " by dscp"];

/// Explains a word, or lists all.
pub(crate) fn explain(args: &ExplainArgs, registries: &Registries) -> anyhow::Result<()> {
    let (all, elsewhere) = (registries.devices.reasons(), known_elsewhere(registries));
    let (reasons, terms) = match args.word.join(" ") {
        word if word.is_empty() => (all.iter().collect(), terms().iter().collect()),
        word => {
            let found = [terms_of(&word, terms()), terms_of(&word, &elsewhere)].concat();
            (named(&word, &all), found)
        }
    };
    if reasons.is_empty() && terms.is_empty() {
        return Err(usage(unknown(&args.word.join(" "), &all)));
    }
    match (args.json, args.word.is_empty()) {
        (true, _) => print_json(&as_json(&reasons, &terms)),
        (false, true) => print(&listing(&reasons, &terms)),
        (false, false) => print(&folded(&paragraphs(&reasons, &terms))),
    }
}

/// Adds the words that `wharf explain` takes to the definition of the command line, for completions: help does not list them.
pub(crate) fn with_words(command: clap::Command, registry: &Registry) -> clap::Command {
    let words = PossibleValuesParser::new(words(registry));
    command.mut_subcommand("explain", |explain| explain.mut_arg("word", |word| word.value_parser(words)))
}

/// Returns all words as one types them: without blanks and apostrophes.
fn words(registry: &Registry) -> Vec<String> {
    let mut all: Vec<String> =
        known(&registry.reasons()).map(|word| word.replace(' ', "-").replace('\'', "")).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns the words of both tables.
fn known(reasons: &[Reason]) -> impl Iterator<Item = &'static str> {
    reasons.iter().map(|reason| reason.word).chain(terms().iter().map(|term| term.word.as_str()))
}

fn named<'a>(word: &str, reasons: &'a [Reason]) -> Vec<&'a Reason> {
    let word = normal(word).replace(' ', "-");
    reasons.iter().filter(|reason| reason.word == word).collect()
}

/// Returns the rows that `word` names: by a name of theirs, or by one with a percentile.
fn terms_of<'a>(word: &str, all: &'a [Term]) -> Vec<&'a Term> {
    let is_of = |name: &str, term: &Term| {
        is_same(&term.word, name) || term.others.iter().any(|other| is_same(other, name))
    };
    let whole = normal(word);
    let short = SUFFIXES.iter().find_map(|suffix| whole.strip_suffix(suffix)).unwrap_or(&whole);
    let short = short.trim_end_matches(" ns").trim_end_matches(" by dscp");
    let found = |name: &str| all.iter().filter(|term| is_of(name, term)).collect::<Vec<_>>();
    let exact = found(&whole);
    if exact.is_empty() { found(short) } else { exact }
}

/// Returns a word as it is compared: `came_pps` of the JSON is `came pps` of the tables.
fn normal(word: &str) -> String {
    let plain = word.to_lowercase().replace(['_', '-'], " ").replace(['\'', ','], "");
    plain.trim_end_matches(':').trim().to_string()
}

fn is_same(word: &str, other: &str) -> bool {
    normal(word) == normal(other)
}

/// Returns the objects as JSON. The keys are a promise.
fn as_json(reasons: &[&Reason], terms: &[&Term]) -> Value {
    let reasons = reasons.iter().map(|reason| {
        json!({
            "word": reason.word,
            "devices": reason.devices,
            "what_happened": reason.what_happened,
            "what_to_do": reason.what_to_do,
        })
    });
    let terms = terms.iter().map(|term| {
        let commands: Vec<&str> = term.commands.split(", ").collect();
        json!({ "word": term.word, "commands": commands, "meaning": term.meaning, "reading": term.reading })
    });
    json!({ "reasons": reasons.collect::<Vec<_>>(), "rows": terms.collect::<Vec<_>>() })
}

/// Returns the names of all, by group: what they mean is a word away, and in the JSON.
fn listing(reasons: &[&Reason], terms: &[&Term]) -> String {
    let mut drops = BTreeMap::<&str, Vec<&str>>::new();
    for reason in reasons {
        let counts = if let [one] = *reason.devices { one } else { "several" };
        drops.entry(counts).or_default().push(reason.word);
    }
    let mut rows = BTreeMap::<&str, Vec<&str>>::new();
    for term in terms {
        rows.entry(term.commands.split(',').next().unwrap_or_default()).or_default().push(&term.word);
    }
    let groups = |title: &str, all: BTreeMap<&str, Vec<&str>>| {
        let lines = all.into_iter().map(|(name, mut words)| {
            words.dedup();
            paragraph(&format!("  {name}: {}", words.join(", ")))
        });
        format!("{title}\n{}", lines.collect::<Vec<_>>().join("\n"))
    };
    let drops = groups("Reasons of drops, by who counts them:", drops);
    let rows = groups("Rows of tables and keys of the JSON, by a command that shows them:", rows);
    format!("{drops}\n\n{rows}\n\nwharf explain WORD says what it means and what to do; --json has all")
}

fn paragraphs(reasons: &[&Reason], terms: &[&Term]) -> String {
    let reason = |reason: &&Reason| {
        format!(
            "{} ({})\n  What happened: {}\n  What to do: {}",
            reason.word,
            reason.devices.join(", "),
            reason.what_happened,
            reason.what_to_do
        )
    };
    let term = |term: &&Term| {
        format!("{} ({})\n  {}\n  {}", term.word, term.commands, term.meaning, term.reading)
            .trim_end()
            .to_string()
    };
    let all: Vec<String> = reasons.iter().map(reason).chain(terms.iter().map(term)).collect();
    all.join("\n\n")
}

/// Returns the answer to a word that is not in the tables: the nearest ones.
fn unknown(word: &str, reasons: &[Reason]) -> String {
    let mut known: Vec<&str> = known(reasons).collect();
    known.dedup();
    let given = normal(word);
    let distance = |known: &str| levenshtein(&normal(known), &given);
    known.retain(|known| normal(known).contains(&given) || distance(known) <= given.len() / 3);
    known.sort_by_key(|known| (!normal(known).contains(&given), distance(known)));
    let nearest: Vec<String> = known.iter().take(NEAREST_MAX).map(|known| format!("\"{known}\"")).collect();
    let near = match &nearest[..] {
        [] => "`wharf explain` lists all".into(),
        [one] => format!("nearest is {one}"),
        all => format!("nearest are {}", all.join(", ")),
    };
    format!("\"{word}\" is no reason, no row of a table and no key of the JSON; {near}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_word_gets_the_nearest() {
        let unknown = |word| unknown(word, &Registry::default().reasons());
        assert!(unknown("nosuch").ends_with("; `wharf explain` lists all"), "{}", unknown("nosuch"));
        assert!(unknown("ring-ful").contains("nearest is \"ring-full\""), "{}", unknown("ring-ful"));
        assert!(unknown("waits").contains("nearest is \"waits for room\""), "{}", unknown("waits"));
    }

    #[test]
    fn rows_are_sorted_and_found_by_the_name_of_the_json_too() {
        assert!(terms().is_sorted_by_key(|term| &term.word));
        for word in ["packets_per_doorbell", "Senders' waits", "frames_in_use", "timing-error"] {
            assert_eq!(terms_of(word, terms()).len(), 1, "{word}");
        }
        let reasons = Registry::default().reasons();
        assert_eq!(named("ring_full", &reasons).len(), 3, "of packet and xdp, tap, vhost-user");
    }
}
