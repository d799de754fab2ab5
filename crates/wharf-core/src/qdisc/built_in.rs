//! The kinds of disciplines of this crate.

use super::{QdiscKind, QdiscRegistry, edt, fifo, fq_codel, prio};

/// In the order in which they are listed.
static BUILT_IN: &[&QdiscKind] = &[&fifo::KIND, &prio::KIND, &fq_codel::KIND, &edt::KIND];

impl Default for QdiscRegistry {
    /// The kinds of this crate.
    fn default() -> Self {
        Self { kinds: BUILT_IN.to_vec() }
    }
}
