//! The table of reasons, sorted by word.

mod a_to_o;
mod p_to_z;

use super::Reason;

/// All reasons, sorted by word.
pub const REASONS: &[Reason] = &{
    let (first, second) = (a_to_o::ROWS, p_to_z::ROWS);
    let mut all = [first[0]; a_to_o::ROWS.len() + p_to_z::ROWS.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < first.len() { first[at] } else { second[at - first.len()] };
        at += 1;
    }
    all
};

const fn row(
    word: &'static str, devices: &'static [&'static str], what_happened: &'static str,
    what_to_do: &'static str,
) -> Reason {
    Reason { word, devices, what_happened, what_to_do }
}
