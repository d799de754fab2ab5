//! The times at which a sender has packets: `saturate`, `poisson:rate=1mpps`, `on-off:on=1ms,off=4ms`, or those of a
//! capture.

use crate::engine::Random;
use std::sync::Arc;
use std::time::Duration;
use wharf_core::units;

const WANTED: &str = "want saturate, poisson:rate=100kpps, on-off:on=1ms,off=4ms or pcap:FILE";
/// The longest phase of on-off traffic, and the longest mean gap of a Poisson stream.
const PHASE_MAX: Duration = Duration::from_secs(10);

/// A sender's arrivals.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Arrivals {
    /// A packet whenever it can send one.
    #[default]
    Saturate,
    /// Bursts with exponentially distributed gaps, so many packets a second in the mean.
    Poisson {
        /// Packets a second.
        packets_per_second: u64,
    },
    /// It saturates for a while, then sends nothing for a while.
    OnOff {
        /// The one while.
        on_ns: u64,
        /// The other.
        off_ns: u64,
    },
    /// The times of a capture's packets since its first one, in nanoseconds; at its end it begins anew, a mean gap later.
    Trace(Arc<[u64]>),
}

impl std::str::FromStr for Arrivals {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let options: Vec<(&str, &str)> =
            rest.split(',').filter_map(|option| option.split_once('=')).collect();
        let of = |key: &str| options.iter().find(|option| option.0 == key).map(|option| option.1);
        let known = |keys: &[&str]| {
            options.len() == keys.len() && keys.iter().all(|key| of(key).is_some()) && !rest.ends_with(',')
        };
        let time = |key: &str| {
            let time = of(key).and_then(|text| units::duration(text).ok());
            time.filter(|time| !time.is_zero() && *time <= PHASE_MAX).map(|time| time.as_nanos() as u64)
        };
        let arrivals = match kind {
            "saturate" if rest.is_empty() => Some(Self::Saturate),
            "poisson" if known(&["rate"]) => {
                let rate = of("rate").and_then(|text| units::packets_per_second(text).ok());
                let rate = rate.filter(|rate| (1..=1_000_000_000).contains(rate));
                rate.map(|packets_per_second| Self::Poisson { packets_per_second })
            }
            "on-off" if known(&["on", "off"]) => {
                time("on").zip(time("off")).map(|(on_ns, off_ns)| Self::OnOff { on_ns, off_ns })
            }
            _ => None,
        };
        arrivals.ok_or_else(|| format!("\"{}\" cannot be: {WANTED}", text.escape_debug()))
    }
}

impl std::fmt::Display for Arrivals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Saturate => f.write_str("saturate"),
            Self::Poisson { packets_per_second } => write!(f, "poisson:rate={packets_per_second}"),
            Self::OnOff { on_ns, off_ns } => write!(f, "on-off:on={on_ns}ns,off={off_ns}ns"),
            Self::Trace(times) => write!(f, "pcap of {} packets", times.len()),
        }
    }
}

/// The times of one sender, by a generator of its own.
#[derive(Debug, Clone)]
pub struct Schedule {
    arrivals: Arrivals,
    random: Random,
    /// The time of the next burst of a Poisson stream; the shift of on-off phases; the begin of a capture's round.
    next_ns: u64,
    mean_ns: u64,
    burst: usize,
    /// The first packet of the next burst of a capture.
    at: usize,
}

impl Schedule {
    /// Creates the times of sender `number`, for bursts of `burst` packets.
    pub fn new(arrivals: Arrivals, burst: usize, seed: u64, number: usize) -> Self {
        let mut random = Random::new(seed ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let burst = burst.max(1);
        let mean_ns = match &arrivals {
            Arrivals::Poisson { packets_per_second } => burst as u64 * 1_000_000_000 / packets_per_second,
            Arrivals::Trace(times) => {
                times.last().unwrap_or(&0) / (times.len() as u64).saturating_sub(1).max(1)
            }
            _ => 0,
        };
        let next_ns = match &arrivals {
            Arrivals::Saturate | Arrivals::Trace(_) => 0,
            Arrivals::Poisson { .. } => random.exponential(mean_ns),
            Arrivals::OnOff { on_ns, off_ns } => random.below(on_ns + off_ns),
        };
        Self { arrivals, random, next_ns, mean_ns, burst, at: 0 }
    }

    /// Returns the time of the next burst: at most `now_ns` if it is due.
    pub fn due_ns(&self, now_ns: u64) -> u64 {
        match &self.arrivals {
            Arrivals::Saturate => now_ns,
            Arrivals::Poisson { .. } => self.next_ns,
            // A burst is there with its last packet.
            Arrivals::Trace(times) => match times.get(self.at + self.burst - 1) {
                Some(last_ns) => self.next_ns + last_ns,
                None => u64::MAX,
            },
            Arrivals::OnOff { on_ns, off_ns } => {
                let at_ns = (now_ns + self.next_ns) % (on_ns + off_ns);
                if at_ns < *on_ns { now_ns } else { now_ns + (on_ns + off_ns - at_ns) }
            }
        }
    }

    /// True if there are times without packets.
    pub fn pauses(&self) -> bool {
        self.arrivals != Arrivals::Saturate
    }

    /// Takes the burst that is due.
    pub fn take(&mut self) {
        match &self.arrivals {
            Arrivals::Poisson { .. } => self.next_ns += self.random.exponential(self.mean_ns),
            Arrivals::Trace(times) => {
                self.at += self.burst;
                if self.at + self.burst > times.len() {
                    // What is less than a burst at the end is left out.
                    self.at = 0;
                    self.next_ns += times.last().unwrap_or(&0) + self.mean_ns.max(1);
                }
            }
            Arrivals::Saturate | Arrivals::OnOff { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_read_or_refused_in_a_line() {
        let read = |text: &str| text.parse::<Arrivals>();
        assert_eq!(read("saturate"), Ok(Arrivals::Saturate));
        assert_eq!(read("poisson:rate=2mpps"), Ok(Arrivals::Poisson { packets_per_second: 2_000_000 }));
        assert_eq!(
            read("on-off:on=1ms,off=2ms"),
            Ok(Arrivals::OnOff { on_ns: 1_000_000, off_ns: 2_000_000 })
        );
        for wrong in [
            "",
            "poisson",
            "poisson:rate=0",
            "poisson:rate=1,x=2",
            "on-off:on=1ms",
            "on-off:on=0,off=1s",
            "saturate:1",
        ] {
            assert!(read(wrong).is_err_and(|error| error.contains(WANTED)), "{wrong}");
        }
    }

    #[test]
    fn poisson_bursts_have_the_mean_rate() {
        let poisson = Arrivals::Poisson { packets_per_second: 1_000_000 };
        let mut schedule = Schedule::new(poisson, 4, 1, 0);
        (0..100_000).for_each(|_| schedule.take());
        let mean_ns = schedule.due_ns(0) / 100_000;
        assert!(mean_ns.abs_diff(4000) < 60, "{mean_ns}");
    }

    #[test]
    fn a_capture_is_followed_in_bursts_and_begins_anew() {
        let trace = Arrivals::Trace([0, 10, 100, 110, 300].into());
        let mut schedule = Schedule::new(trace, 2, 1, 0);
        let due: Vec<u64> = (0..4)
            .map(|_| {
                let due_ns = schedule.due_ns(0);
                schedule.take();
                due_ns
            })
            .collect();
        assert_eq!(due, [10, 110, 375 + 10, 375 + 110]);
    }

    #[test]
    fn on_off_is_due_within_its_phase_alone() {
        let schedule = Schedule::new(Arrivals::OnOff { on_ns: 1000, off_ns: 3000 }, 1, 7, 3);
        let on = (0..4000).filter(|&at_ns| schedule.due_ns(at_ns) == at_ns).count();
        assert_eq!(on, 1000);
        assert!((0..4000).all(|at_ns| {
            let due_ns = schedule.due_ns(at_ns);
            due_ns >= at_ns && schedule.due_ns(due_ns) == due_ns
        }));
    }
}
