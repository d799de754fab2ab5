//! The reasons by which frames that fail, or are dropped, are counted: one table, a row for each word and device.
//!
//! A device or a discipline counts by a short word ([`wharf_core::device::Completions::failed`], [`RxDevice::drops`]).
//! This table says what happened, and what to do. A test finds words in the sources that have no row
//! (`crates/wharf-devices/tests/reasons.rs`).
//!
//! [`RxDevice::drops`]: wharf_core::device::RxDevice::drops

mod table;

pub use table::REASONS;

/// A reason, of one device or of several to which the same applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason {
    /// The word that counters are kept by.
    pub word: &'static str,
    /// Kinds of devices, or the part of the path, that count by it.
    pub devices: &'static [&'static str],
    /// The event, one sentence or two.
    pub what_happened: &'static str,
    /// The remedy, one sentence or two.
    pub what_to_do: &'static str,
}

/// Returns the rows of `word`: one, or one for each group of devices.
pub fn of(word: &str) -> impl Iterator<Item = &'static Reason> {
    REASONS.iter().filter(move |reason| reason.word == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_by_word_and_each_device_has_one_of_a_word() {
        assert!(REASONS.is_sorted_by_key(|reason| reason.word));
        for reason in REASONS {
            let rows = of(reason.word).flat_map(|row| row.devices);
            let mut devices: Vec<&str> = rows.copied().collect();
            let all = devices.len();
            devices.sort_unstable();
            devices.dedup();
            assert_eq!((devices.len(), reason.devices.is_empty()), (all, false), "{}", reason.word);
        }
    }

    #[test]
    fn devices_of_rows_are_kinds_or_parts_of_the_path() {
        let parts = ["any", "discipline", "fault", "receiver", "segmenter", "sender"];
        let registry = crate::registry::Registry::default();
        for device in REASONS.iter().flat_map(|reason| reason.devices) {
            let is_kind = registry.kinds().iter().any(|kind| kind.name == *device);
            assert!(
                is_kind || parts.contains(device) || cfg!(not(all(feature = "vhost", feature = "vfio"))),
                "{device}"
            );
        }
    }

    #[test]
    fn texts_are_sentences() {
        for reason in REASONS {
            for text in [reason.what_happened, reason.what_to_do] {
                let begins = text.starts_with(|first: char| first.is_uppercase() || first == '`');
                assert!(begins && text.ends_with('.') && !text.contains('\n'), "{}: {text}", reason.word);
            }
        }
    }
}
