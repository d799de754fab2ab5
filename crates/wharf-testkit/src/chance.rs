//! Seeded chance, for peers that misbehave.

pub use wharf_core::random::SplitMix64 as Chance;
