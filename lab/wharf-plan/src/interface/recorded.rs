//! Parsers of ethtool's output, from another machine or another day.

use super::{Channels, Rings};

/// Splits lines into name and value at the colon, without blanks around. Names and values are shown as they
/// are, so lines with control characters are skipped.
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    let plain =
        |pair: &(&str, &str)| !pair.0.contains(char::is_control) && !pair.1.contains(char::is_control);
    pairs.map(|(name, value)| (name.trim(), value.trim())).filter(plain)
}

/// Parses the output of `ethtool -i`.
pub(super) fn driver(text: &str) -> Option<String> {
    pairs(text).find(|pair| pair.0 == "driver").map(|pair| pair.1.to_string())
}

/// Returns the two numbers called `name`: the maximum, then the current one.
fn two(text: &str, name: &str) -> Option<(u32, u32)> {
    let mut numbers = pairs(text).filter(|pair| pair.0 == name).map(|pair| pair.1.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// Parses the output of `ethtool -g`.
pub(super) fn rings(text: &str) -> Option<Rings> {
    let ((rx_max, rx), (tx_max, tx)) = (two(text, "RX")?, two(text, "TX")?);
    Some(Rings { rx, tx, rx_max, tx_max })
}

/// Parses the output of `ethtool -l`. Kinds that a driver does not have are written n/a.
pub(super) fn channels(text: &str) -> Option<Channels> {
    let now = |name: &str| {
        let last = pairs(text).filter(|pair| pair.0 == name).last()?;
        if last.1 == "n/a" { Some(0) } else { last.1.parse().ok() }
    };
    Some(Channels { rx: now("RX")?, tx: now("TX")?, combined: now("Combined")? })
}

/// Parses the output of `ethtool --show-priv-flags`.
pub(super) fn private_flags(text: &str) -> Vec<(String, bool)> {
    let on = |value| match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    };
    pairs(text).filter_map(|(name, value)| Some((name.to_string(), on(value)?))).collect()
}
