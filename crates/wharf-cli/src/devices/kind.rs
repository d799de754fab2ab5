//! The page of one kind of device: its keys, with values, default and when to change each.

use super::{Row, Used, interface_table, mends};
use crate::fold::folded;
use crate::output::{text, wrapped};
use serde_json::{Value, json};
use wharf::device::Key;
use wharf_core::options::Values;
use wharf_devices::reasons;
use wharf_devices::spec::{Kind, Place};

/// Returns the keys of a kind, each with the direction that it is of.
pub(super) fn keys(kind: &Kind) -> impl Iterator<Item = (&'static Key, &'static str)> {
    let both = kind.keys.iter().map(|key| (key, "both"));
    let send = kind.tx_keys.iter().map(|key| (key, "send"));
    let receive = kind.rx_keys.iter().map(|key| (key, "receive"));
    both.chain(send).chain(receive)
}

/// Returns a key as JSON. The keys are a promise.
pub(super) fn key_as_json(key: &Key, direction: &str) -> Value {
    json!({
        "key": key.name,
        "values": key.allowed(),
        "default": key.default,
        "direction": direction,
        "meaning": key.meaning,
        "when": key.when,
    })
}

/// Returns the directions of a kind in words.
pub(super) fn directions(kind: &Kind) -> &'static str {
    match (kind.can.send, kind.can.receive, kind.can.both) {
        (true, true, true) => "sends and receives",
        (true, true, false) => "sends or receives",
        (true, false, _) => "sends",
        (false, ..) => "receives",
    }
}

/// Returns the page of a kind.
pub(super) fn page(row: &Row, interfaces: &[Used]) -> String {
    let Row { kind, lacking } = row;
    let here = if lacking.is_empty() {
        "ready".into()
    } else {
        mends(row).collect::<Vec<_>>().join("\n").trim().to_string()
    };
    let head = format!(
        "{}: {}; it {}\n{}\nneeds: {}\nhere: {here}",
        kind.name,
        kind.summary,
        directions(kind),
        kind.usage,
        kind.needs
    );
    let mut parts = vec![folded(&head), key_table(kind)];
    let usable = interfaces.iter().filter(|used| used.users.contains(&kind.name));
    let usable: Vec<Used> = usable.map(|used| Used { users: vec![kind.name], ..used.clone() }).collect();
    if matches!(kind.place, Place::Interface(_)) && !usable.is_empty() {
        parts.push(interface_table(&usable));
    }
    let rows = reasons::with([(kind.name, kind.reasons)]);
    let reasons: Vec<&str> =
        rows.iter().filter(|row| row.devices.contains(&kind.name)).map(|row| row.word).collect();
    if !reasons.is_empty() {
        let reasons = reasons.join(", ");
        parts.push(folded(&format!("Frames fail or are dropped as (wharf explain WORD): {reasons}")));
    }
    parts.join("\n\n")
}

fn key_table(kind: &Kind) -> String {
    let mut keys = keys(kind).peekable();
    if keys.peek().is_none() {
        return "It takes no keys.".into();
    }
    let mut rows = wrapped(&["key", "values", "default", "to", "meaning; when to change it"]);
    for (key, direction) in keys {
        let to = if direction == "both" { "both ways" } else { direction };
        let values = match key.values {
            Values::OneOf(words) => words.join(", "),
            _ => key.allowed(),
        };
        let when = if key.when.is_empty() { String::new() } else { format!(". {}", key.when) };
        rows.add_row([
            key.name.into(),
            values,
            key.default.into(),
            to.into(),
            format!("{}{when}", key.meaning),
        ]);
    }
    text(&rows)
}
