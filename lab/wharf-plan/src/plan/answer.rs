//! The verdict on a target, and the limits below it, in words.

use super::{Direction, FeatureOutcome, Limit, Outcome, Part, Question};
use crate::nics::{Mark, Nic, ONE};
use serde::{Serialize, Serializer};
use std::cmp::Reverse;

/// A rate to be carried, each way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Bits a second on the wire, preamble and gap counted, as line rates are.
    Bits(u64),
    /// Packets a second.
    Packets(u64),
}

/// Most assumed bounds that the sentences name.
const ASSUMED_MAX: usize = 4;

/// The verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The target in packets a second; in JSON, millions.
    #[serde(rename = "mpps", serialize_with = "millions")]
    pub target_pps: u64,
    /// The target asked for; in JSON, billions of bits a second, or null.
    #[serde(rename = "gbps", serialize_with = "billions")]
    pub target: Target,
    /// True if the server reaches it as asked for.
    pub reached: bool,
    /// True if it does with all compatible features switched on.
    pub reached_together: bool,
    /// Limits below the target, the lowest first; in JSON, their parts.
    #[serde(rename = "stopped_by", serialize_with = "parts")]
    pub stops: Vec<Limit>,
    /// The same with all compatible features switched on.
    #[serde(rename = "stopped_by_together", serialize_with = "parts")]
    pub stops_together: Vec<Limit>,
    /// Bounds that are only assumed, and those that nothing is known of: a yes hangs on them.
    pub assumed: Vec<String>,
    /// Sentences for people.
    pub words: String,
}

fn millions<S: Serializer>(pps: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(*pps as f64 / 1e6)
}

fn billions<S: Serializer>(target: &Target, serializer: S) -> Result<S::Ok, S::Error> {
    match target {
        Target::Bits(bits) => serializer.serialize_some(&(*bits as f64 / 1e9)),
        Target::Packets(_) => serializer.serialize_none(),
    }
}

fn parts<S: Serializer>(limits: &[Limit], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(limits.iter().map(|limit| limit.part))
}

/// Returns the bits of a packet on the wire, in billionths.
fn wire_bits(nic: &Nic, question: &Question) -> u128 {
    8 * u128::from(question.load.packet_bytes() + nic.wire_overhead_bytes.value * ONE)
}

/// Returns the bits a second on the wire at `pps` packets a second.
pub(super) fn bits_per_second(nic: &Nic, question: &Question, pps: u64) -> u64 {
    u64::try_from(u128::from(pps) * wire_bits(nic, question) / u128::from(ONE)).unwrap_or(u64::MAX)
}

impl Answer {
    pub(super) fn new(
        nic: &Nic, question: &Question, outcomes: &[Outcome; 3], together: &[Outcome; 3],
        features: &[FeatureOutcome],
    ) -> Self {
        let target = question.target.unwrap_or(Target::Bits(nic.wire_bits_per_second.value));
        let target_pps = match target {
            Target::Packets(pps) => pps,
            Target::Bits(bits) => {
                let pps = u128::from(bits) * u128::from(ONE) / wire_bits(nic, question);
                u64::try_from(pps).unwrap_or(u64::MAX)
            }
        };
        let at = question.direction as usize;
        let (stops, stops_together) = (stops(&outcomes[at], target_pps), stops(&together[at], target_pps));
        let (reached, reached_together) = (stops.is_empty(), stops_together.is_empty());
        let mut answer = Self {
            target,
            target_pps,
            reached,
            reached_together,
            stops,
            stops_together,
            assumed: assumed(nic, &outcomes[at]),
            words: String::new(),
        };
        answer.words = answer.sentences(nic, question, &outcomes[at], &together[at], features);
        answer
    }

    fn sentences(
        &self, nic: &Nic, question: &Question, outcome: &Outcome, together: &Outcome,
        features: &[FeatureOutcome],
    ) -> String {
        let comes_to = |pps| {
            let bits = bits_per_second(nic, question, pps);
            format!("it comes to {} Mpps ({})", mpps(pps), gbit(bits))
        };
        let (now, asked) = (comes_to(outcome.pps), self.asked(question));
        let binding = outcome.binding.words();
        if self.reached {
            let condition = self.condition();
            return format!("{asked} Yes{condition}: {now}; the first to stop it would be the {binding}.");
        }
        let no = format!("{asked} No: {now}, stopped by the {binding}.{}", others(&self.stops));
        let (alone, name) = best_alone(features, question.direction);
        if together.pps.max(alone) <= outcome.pps {
            return no + " No feature helps.";
        }
        if together.pps < alone {
            let verdict = if alone >= self.target_pps { ": that is enough" } else { ", which is not enough" };
            return no + &format!(" With {name} {}{verdict}.", comes_to(alone));
        }
        let all = format!("{no} With all compatible features switched on {}", comes_to(together.pps));
        if self.reached_together {
            return all + ": that is enough.";
        }
        format!("{all}, stopped by the {}.{}", together.binding.words(), others(&self.stops_together))
    }

    /// Returns what a yes hangs on, in words.
    fn condition(&self) -> String {
        let named = self.assumed.iter().take(ASSUMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
        match self.assumed.len() {
            0 => String::new(),
            1..=ASSUMED_MAX => format!(", if what is only assumed holds ({named})"),
            all => {
                format!(", if what is only assumed holds ({named}, and {} more in --json)", all - ASSUMED_MAX)
            }
        }
    }

    /// Returns the question in words.
    fn asked(&self, question: &Question) -> String {
        let verb = match question.direction {
            Direction::Tx => "send",
            Direction::Rx => "receive",
            Direction::Both => "send and receive at once",
        };
        let (packets, rate) = (question.load.name(), mpps(self.target_pps));
        match self.target {
            Target::Bits(bits) => format!("Can it {verb} {} of {packets}, {rate} Mpps?", gbit(bits)),
            Target::Packets(_) => format!("Can it {verb} {rate} Mpps of {packets}?"),
        }
    }
}

/// Returns the highest packet rate that switching one feature gives, and the switch: `tx_push off`.
fn best_alone(features: &[FeatureOutcome], direction: Direction) -> (u64, String) {
    let at = direction as usize;
    let ways = features.iter().flat_map(|one| [(one.with[at], one, "on"), (one.without[at], one, "off")]);
    let best = ways.min_by_key(|way| Reverse(way.0));
    best.map_or((0, String::new()), |(pps, feature, way)| (pps, format!("{} {way}", feature.name)))
}

/// Returns the bounds that nothing published, read or given stands behind.
fn assumed(nic: &Nic, outcome: &Outcome) -> Vec<String> {
    let other = match outcome.direction {
        Direction::Tx => "rx.",
        Direction::Rx => "tx.",
        Direction::Both => "-",
    };
    let unbounded = outcome.limit(Part::Nic).is_none().then(|| "no bound of the NIC's own".to_string());
    let figures = nic.figures().into_iter();
    let guessed = figures.filter(|figure| figure.mark == Mark::Assumed && !figure.key.starts_with(other));
    unbounded.into_iter().chain(guessed.map(|figure| format!("{} {}", figure.key, figure.value))).collect()
}

/// Returns the limits below the target, the lowest first.
fn stops(outcome: &Outcome, target_pps: u64) -> Vec<Limit> {
    let mut stops: Vec<Limit> = outcome
        .limits
        .iter()
        .filter(|limit| limit.pps.is_some_and(|pps| pps < target_pps))
        .copied()
        .collect();
    stops.sort_by_key(|limit| limit.pps);
    stops
}

/// Returns the limits that remain once the first is gone, in words.
fn others(stops: &[Limit]) -> String {
    let name = |limit: &Limit| format!("{} {}", limit.part.words(), mpps(limit.pps.unwrap_or(0)));
    let names: Vec<String> = stops.iter().skip(1).map(name).collect();
    if names.is_empty() { String::new() } else { format!(" Too little as well: {}.", names.join(", ")) }
}

/// Returns millions: to two places, and from a thousand on whole ones, whose thousands are set apart.
pub fn mpps(pps: u64) -> String {
    let hundredths = (u128::from(pps) + 5_000) / 10_000;
    match hundredths / 100 {
        whole @ 0..1000 => format!("{whole}.{:02}", hundredths % 100),
        _ => {
            let whole = (u128::from(pps) + 500_000) / 1_000_000;
            let digits = whole.to_string();
            let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
            groups.iter().map(|group| String::from_utf8_lossy(group)).collect::<Vec<_>>().join(" ")
        }
    }
}

/// Returns bits a second in the unit that suits.
fn gbit(bits: u64) -> String {
    let tenths = (u128::from(bits) + 50_000_000) / 100_000_000;
    match tenths % 10 {
        0 => format!("{} Gbit/s", tenths / 10),
        tenth => format!("{}.{tenth} Gbit/s", tenths / 10),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn rates_have_no_more_places_than_they_are_good_for() {
        let written = [92_290_000, 138_725_000, 999_994_999, 1_000_000_000, 13_653_333_333].map(super::mpps);
        assert_eq!(written, ["92.29", "138.73", "999.99", "1 000", "13 653"]);
    }
}
