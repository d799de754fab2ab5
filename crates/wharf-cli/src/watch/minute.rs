//! `Minute`: the delays at the beginning of the last minute, to tell those since from those of the whole run.

use super::running::Running;
use super::snapshot::{Bands, Identity, bands, since};
use std::collections::VecDeque;
use std::time::Duration;

/// Time between two states that are kept.
pub(super) const EVERY: Duration = Duration::from_secs(10);
/// States that are kept: the first of all is a minute old, and less than another step.
const KEPT: usize = 7;

/// See the module. The oldest state is the first; each has the bands of each direction.
#[derive(Debug, Default)]
pub(super) struct Minute(VecDeque<Vec<(Identity, Bands)>>);

impl Minute {
    /// Keeps the state of these directions.
    pub(super) fn note(&mut self, paths: &[Running]) {
        self.keep(paths.iter().map(|path| (path.identity.clone(), bands(path.delay_by_band()))).collect());
    }

    fn keep(&mut self, state: Vec<(Identity, Bands)>) {
        self.0.push_back(state);
        if self.0.len() > KEPT {
            self.0.pop_front();
        }
    }

    /// Returns the delays of a direction in the last minute, of `now` since the run began.
    pub(super) fn since(&self, path: Option<&Identity>, now: &Bands) -> Bands {
        let first = self.0.front().filter(|_| self.0.len() == KEPT);
        let first = first.and_then(|state| state.iter().find(|(identity, _)| Some(identity) == path));
        first.map_or_else(|| now.clone(), |(_, before)| since(now, before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wharf_tools::traffic::Latency;

    #[test]
    fn what_waited_before_the_minute_is_not_in_it() {
        let mut minute = Minute::default();
        let (mut band, [path, later]) = (Latency::default(), [Identity::default(), Identity::default()]);
        let of = |path: &Identity, minute: &Minute, band: &Latency| {
            minute.since(Some(path), &vec![(1, band.clone())])[0].1.packets()
        };
        let packets = |minute: &Minute, band: &Latency| of(&path, minute, band);
        for step in 1..=20 {
            band.record_many(1_000_000, 10);
            assert_eq!(packets(&minute, &band), 10 * step.min(KEPT as u64), "step {step}");
            minute.keep(vec![(path.clone(), vec![(1, band.clone())])]);
        }
        // Another port of the same name has come in its place.
        assert_eq!(of(&later, &minute, &band), 200);
    }
}
