//! `DeviceRow`: the figures of a device's own, such as those of a guest's virtqueues.

use crate::output::grouped;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wharf::queue::TxQueue;

/// Name of the features that were agreed upon.
const FEATURES: &str = "features";
/// Name of the line: 1 while it is up.
pub(super) const LINK_UP: &str = "link_up";

/// Figures by name.
pub(super) type Facts = BTreeMap<String, u64>;

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct DeviceRow {
    /// How it works now: the layout of its rings, above all.
    mode: Option<String>,
    #[serde(flatten)]
    pub(super) facts: Facts,
    /// By queue pair.
    pub(super) queue_pairs: Vec<Facts>,
}

impl DeviceRow {
    /// Returns the figures of the device of `queue`, if it has any.
    pub(crate) fn of(queue: &TxQueue) -> Option<Self> {
        let mut row = Self::default();
        for fact in queue.device_facts() {
            let facts = match fact.pair {
                None => &mut row.facts,
                Some(pair) => {
                    let pairs = row.queue_pairs.len().max(pair as usize + 1);
                    row.queue_pairs.resize(pairs, Facts::new());
                    &mut row.queue_pairs[pair as usize]
                }
            };
            facts.insert(fact.name.into(), fact.value);
        }
        row.mode = queue.device_mode().map(String::from);
        (!row.facts.is_empty()).then_some(row)
    }

    /// True if its line can be taken down.
    pub(super) fn has_line(&self) -> bool {
        self.facts.contains_key("link_asked")
    }

    /// Returns the words of what is constant while one peer is there: mode and features, as labels.
    pub(super) fn constants(&self) -> [(&'static str, String); 2] {
        let features = self.facts.get(FEATURES).map(|features| format!("{features:#x}"));
        [("mode", self.mode.clone().unwrap_or_default()), ("features", features.unwrap_or_default())]
    }

    /// Returns it for people: lines of the device, then of its pairs.
    pub(super) fn texts(&self) -> Vec<String> {
        std::iter::once(self.text()).chain(self.pair_texts()).collect()
    }

    /// True if its peer is there, and ready.
    pub(crate) fn is_up(&self) -> bool {
        self.facts.get(LINK_UP).is_some_and(|&is_up| is_up > 0)
    }

    /// Returns its own figures in a line.
    pub(crate) fn text(&self) -> String {
        let fact = |name: &str| self.facts.get(name).copied().unwrap_or(0);
        if !self.is_up() {
            return "no peer that is ready".into();
        }
        let [(_, mode), (_, features)] = self.constants();
        let (in_use, pairs) = (fact("pairs_in_use"), fact("pairs"));
        format!("{mode}, {in_use} of {pairs} queue pairs, features {features}")
    }

    fn pair_texts(&self) -> impl Iterator<Item = String> {
        self.queue_pairs.iter().enumerate().map(|(pair, facts)| {
            let facts = facts.iter().map(|(name, value)| format!("{} {name}", grouped(*value)));
            format!("pair {pair}: {}", facts.collect::<Vec<_>>().join(", "))
        })
    }
}
