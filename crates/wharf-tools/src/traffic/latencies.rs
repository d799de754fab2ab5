//! Latencies by DSCP, which show the effect of priority bands.

use wharf::metrics::Latency;

/// Latencies of each DSCP seen, 64 at most. Allocates only when a DSCP appears for the first time.
#[derive(Debug, Clone, Default)]
pub struct Latencies {
    /// By DSCP.
    classes: Vec<(u8, Latency)>,
    /// Class of the last packet: the next one is most likely of the same.
    last: usize,
}

impl Latencies {
    /// Notes one packet with TOS byte `tos`.
    #[inline]
    pub fn record(&mut self, tos: u8, latency_ns: u64) {
        let dscp = tos >> 2;
        match self.classes.get_mut(self.last) {
            Some((last, latency)) if *last == dscp => latency.record(latency_ns),
            _ => self.record_other(dscp, latency_ns),
        }
    }

    #[inline(never)]
    fn record_other(&mut self, dscp: u8, latency_ns: u64) {
        self.last = match self.classes.binary_search_by_key(&dscp, |(dscp, _)| *dscp) {
            Ok(at) => at,
            Err(at) => {
                self.classes.insert(at, (dscp, Latency::default()));
                at
            }
        };
        self.classes[self.last].1.record(latency_ns);
    }

    /// Returns the packets noted.
    pub fn packets(&self) -> u64 {
        self.classes.iter().map(|(_, latency)| latency.packets()).sum()
    }

    /// Returns the latencies of all packets together.
    pub fn all(&self) -> Latency {
        let mut all = Latency::default();
        self.classes.iter().for_each(|(_, latency)| all.add(latency));
        all
    }

    /// Returns the latencies of each DSCP seen, in order.
    pub fn by_dscp(&self) -> impl Iterator<Item = (u8, &Latency)> {
        self.classes.iter().map(|(dscp, latency)| (*dscp, latency))
    }
}
