//! `Minute`: the delays at the beginning of the last minute, to tell those since from those of the whole run.

use super::running::Running;
use std::collections::VecDeque;
use std::time::Duration;
use wharf_tools::traffic::Latency;

/// Time between two states that are kept.
pub(super) const EVERY: Duration = Duration::from_secs(10);
/// States that are kept: the first of all is a minute old, and less than another step.
const KEPT: usize = 7;

/// See the module. The oldest state is the first; each has the bands of each direction.
#[derive(Debug, Default)]
pub(super) struct Minute(VecDeque<Vec<(String, Vec<Latency>)>>);

impl Minute {
    /// Keeps the state of these directions.
    pub(super) fn note(&mut self, paths: &[Running]) {
        let bands = |path: &Running| path.delay().by_band.into();
        self.keep(paths.iter().map(|path| (path.path.clone(), bands(path))).collect());
    }

    fn keep(&mut self, state: Vec<(String, Vec<Latency>)>) {
        self.0.push_back(state);
        if self.0.len() > KEPT {
            self.0.pop_front();
        }
    }

    /// Returns the delays of direction `path` in the last minute, of `now` since the run began.
    pub(super) fn since(&self, path: &str, now: &[Latency]) -> Vec<Latency> {
        let first = self.0.front().filter(|_| self.0.len() == KEPT);
        let first = first.and_then(|state| state.iter().find(|(name, _)| name == path));
        match first {
            Some((_, before)) => now.iter().zip(before).map(|(now, before)| now.since(before)).collect(),
            None => now.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waited_before_the_minute_is_not_in_it() {
        let mut minute = Minute::default();
        let mut band = Latency::default();
        let packets =
            |minute: &Minute, band: &Latency| minute.since("a-b", std::slice::from_ref(band))[0].packets();
        for step in 1..=20 {
            band.record_many(1_000_000, 10);
            assert_eq!(packets(&minute, &band), 10 * step.min(KEPT as u64), "step {step}");
            minute.keep(vec![("a-b".into(), vec![band.clone()])]);
        }
    }
}
