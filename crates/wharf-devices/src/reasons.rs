//! The reasons by which frames that fail, or are dropped, are counted: one table, a row for each word and
//! device.
//!
//! A device or a discipline counts by a short word ([`wharf_core::device::Completions::failed`], [`RxDevice::drops`]).
//! This table says what happened, and what to do. The kinds of this crate and the parts of the path have
//! their rows here; a kind of another crate brings its own (`Kind::reasons`), and [`with`] joins them. A test
//! finds words in the sources that have no row (`crates/wharf-cli/tests/suite/kinds.rs`).
//!
//! [`RxDevice::drops`]: wharf_core::device::RxDevice::drops

mod switch;
mod table;

use std::borrow::Cow;

/// A reason, of one device or of several to which the same applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// The word that counters are kept by.
    pub word: &'static str,
    /// Kinds of devices, or the part of the path, that count by it.
    pub devices: Cow<'static, [&'static str]>,
    /// The event, one sentence or two.
    pub what_happened: &'static str,
    /// The remedy, one sentence or two.
    pub what_to_do: &'static str,
}

/// A row of the table.
const fn row(
    word: &'static str, devices: &'static [&'static str], what_happened: &'static str,
    what_to_do: &'static str,
) -> Reason {
    Reason { word, devices: Cow::Borrowed(devices), what_happened, what_to_do }
}

/// A word by which a kind of device counts frames that fail or are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// With the meaning that it has for another kind, or a part of the path, in the table.
    As {
        /// The word.
        word: &'static str,
        /// The kind or part.
        device: &'static str,
    },
    /// With a meaning of its own.
    Own {
        /// The word.
        word: &'static str,
        /// The event, one sentence or two.
        what_happened: &'static str,
        /// The remedy, one sentence or two.
        what_to_do: &'static str,
    },
}

/// Returns the table, sorted by word, with the words of `kinds`: the name of each, and what it counts by.
/// Kinds that count by a word with one meaning share a row.
pub fn with(kinds: impl IntoIterator<Item = (&'static str, &'static [Counted])>) -> Vec<Reason> {
    let mut rows = own_rows();
    for (kind, counted) in kinds {
        counted.iter().for_each(|counted| add(&mut rows, kind, *counted));
    }
    rows
}

/// The rows of this crate's kinds and of the parts of the path, sorted by word.
fn own_rows() -> Vec<Reason> {
    let mut rows = [table::ROWS, &router(), switch::ROWS].concat();
    rows.sort_by_key(|row| row.word);
    rows
}

/// Returns the rows of a router's words (`wharf_route::Reason`), which are lines of a text.
fn router() -> Vec<Reason> {
    let of = |line: &'static str| {
        let (word, rest) = line.split_once('|')?;
        let (what_happened, what_to_do) = rest.split_once('|')?;
        Some(row(word, &["router"], what_happened, what_to_do))
    };
    include_str!("reasons/router.txt").lines().filter_map(of).collect()
}

fn add(rows: &mut Vec<Reason>, kind: &'static str, counted: Counted) {
    let is_same = |row: &Reason| match counted {
        Counted::As { word, device } => row.word == word && row.devices.contains(&device),
        Counted::Own { word, what_happened, what_to_do } => {
            (row.word, row.what_happened, row.what_to_do) == (word, what_happened, what_to_do)
        }
    };
    match (rows.iter_mut().find(|row| is_same(row)), counted) {
        // A kind in place of a built-in one of the same name is in the row already.
        (Some(row), _) if row.devices.contains(&kind) => {}
        (Some(row), _) => row.devices.to_mut().push(kind),
        (None, Counted::Own { word, what_happened, what_to_do }) => {
            let at = rows.partition_point(|row| row.word <= word);
            rows.insert(at, Reason { word, devices: vec![kind].into(), what_happened, what_to_do });
        }
        // A word that no row has: `tests/suite/kinds.rs` of the command finds it, for its kinds.
        (None, Counted::As { .. }) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_by_word_and_each_device_has_one_of_a_word() {
        let rows = own_rows();
        assert!([table::ROWS, switch::ROWS].iter().all(|rows| rows.is_sorted_by_key(|reason| reason.word)));
        for reason in &rows {
            let rows = rows.iter().filter(|row| row.word == reason.word);
            let mut devices: Vec<&str> = rows.flat_map(|row| row.devices.iter()).copied().collect();
            let all = devices.len();
            devices.sort_unstable();
            devices.dedup();
            assert_eq!((devices.len(), reason.devices.is_empty()), (all, false), "{}", reason.word);
        }
    }

    #[test]
    fn devices_of_rows_are_kinds_or_parts_of_the_path() {
        let parts = ["any", "discipline", "fault", "receiver", "router", "segmenter", "sender", "switch"];
        let registry = crate::registry::Registry::default();
        for device in own_rows().iter().flat_map(|reason| reason.devices.iter()) {
            let is_kind = registry.kinds().iter().any(|kind| kind.name == *device);
            assert!(is_kind || parts.contains(device) || cfg!(not(feature = "vhost")), "{device}");
        }
    }

    #[test]
    fn a_kind_shares_a_row_or_gets_one_of_its_own() {
        static COUNTED: &[Counted] = &[
            Counted::As { word: "link-down", device: "wire" },
            Counted::Own { word: "link-down", what_happened: "It is down.", what_to_do: "Nothing." },
            Counted::As { word: "link-down", device: "none-such" },
        ];
        let rows = with([("mine", &COUNTED[..2]), ("ours", COUNTED)]);
        let of_word = rows.iter().filter(|row| row.word == "link-down").collect::<Vec<_>>();
        assert!(of_word[0].devices.ends_with(&["mine", "ours"]), "{of_word:?}");
        assert_eq!((of_word.len(), &of_word[1].devices[..]), (2, &["mine", "ours"][..]));
        assert!(rows.len() == own_rows().len() + 1 && rows.is_sorted_by_key(|row| row.word));
    }
}
