//! `Runtime`: the processor time of a run, by thread and by packet, as `show runtime` of VPP has it.

use crate::output::{grouped, time};
use serde::{Deserialize, Serialize};
use wharf_devices::host::ticks;
use wharf_sys::usage;

/// Least share of a processor of a thread that is shown by name.
const SHOWN_SHARE: f64 = 0.01;
/// Threads that carry no packets: they answer those who watch.
const WATCHERS: [&str; 5] =
    ["wharf-client", "wharf-control", "wharf-metrics", "wharf-signals", "wharf-stats"];

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Runtime {
    /// Processor time since the process began, seconds.
    pub(super) used_s: f64,
    /// Processors in use since the snapshot before, or since the run began: 1 is all of one.
    pub(super) processors: f64,
    /// Processor time for each packet received, or sent by a run that receives none; without that of threads
    /// which answer those who watch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ns_per_packet: Option<f64>,
    /// The same in clocks of the time stamp counter, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) clocks_per_packet: Option<f64>,
    pub(super) threads: Vec<ThreadTime>,
    #[serde(skip)]
    ticks: u64,
}

/// The processor time of one thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ThreadTime {
    name: String,
    used_s: f64,
    processors: f64,
}

impl Runtime {
    /// Returns what the process has used until now.
    pub(super) fn now() -> Self {
        let (user, kernel) = usage::cpu_seconds();
        let of_thread = |(name, used_s)| ThreadTime { name, used_s, ..ThreadTime::default() };
        let threads = usage::thread_times().into_iter().map(of_thread).collect();
        Self { used_s: user + kernel, threads, ticks: ticks(), ..Self::default() }
    }

    /// Sets what was used in the `seconds` since `before`, in which `packets` packets came.
    pub(super) fn set_since(&mut self, before: Option<&Self>, seconds: f64, packets: u64) {
        let rounded = |value: f64| (value * 1e3).round() / 1e3;
        let used = (self.used_s - before.map_or(0.0, |before| before.used_s)).max(0.0);
        self.processors = rounded(used / seconds);
        let carried = (self.carried_s() - before.map_or(0.0, Self::carried_s)).max(0.0);
        let per_packet = |amount: f64| (packets > 0).then(|| (amount / packets as f64 * 10.0).round() / 10.0);
        self.ns_per_packet = per_packet(carried * 1e9);
        self.clocks_per_packet = before.filter(|_| cfg!(target_arch = "x86_64")).and_then(|before| {
            per_packet(carried / seconds * self.ticks.saturating_sub(before.ticks) as f64)
        });
        for (at, thread) in self.threads.iter_mut().enumerate() {
            // Threads begin and end seldom, and are in the order of their beginning.
            let earlier =
                before.and_then(|before| before.threads.get(at)).filter(|one| one.name == thread.name);
            let earlier = earlier.map_or(0.0, |one| one.used_s);
            thread.processors = rounded((thread.used_s - earlier).max(0.0) / seconds);
        }
    }

    /// Returns the time of the threads that carry packets, as far as the kernel counts each by itself.
    fn carried_s(&self) -> f64 {
        let carries = |thread: &&ThreadTime| !WATCHERS.contains(&thread.name.as_str());
        match &self.threads[..] {
            [] => self.used_s,
            threads => threads.iter().filter(carries).map(|thread| thread.used_s).sum(),
        }
    }

    /// Returns the share of a processor, and the time of a packet.
    pub(super) fn text(&self) -> String {
        let mut text = format!("processor {}", percent(self.processors));
        if let Some(ns) = self.ns_per_packet {
            text += &format!(", {} a packet", time(ns as u64));
        }
        text
    }

    /// Returns the clocks of a packet, and the threads that used a processor, by name.
    pub(super) fn details(&self) -> String {
        let clocks =
            self.clocks_per_packet.map(|clocks| format!("{} clocks a packet", grouped(clocks as u64)));
        let busy = self.threads.iter().filter(|thread| thread.processors >= SHOWN_SHARE);
        let texts = busy.map(|thread| format!("{} {}", thread.name, percent(thread.processors)));
        clocks.into_iter().chain(texts).collect::<Vec<_>>().join(", ")
    }
}

/// Returns a share of one processor.
fn percent(processors: f64) -> String {
    format!("{:.0} %", processors * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_clocks_of_a_packet_are_those_between_two_snapshots() {
        let thread = |name: &str, used_s| ThreadTime { name: name.into(), used_s, ..ThreadTime::default() };
        let at = |used_s, ticks| {
            let threads = vec![thread("wharf-poller", used_s), thread("wharf-stats", 9.0 * used_s)];
            Runtime { used_s, ticks, threads, ..Runtime::default() }
        };
        let (before, mut now) = (at(1.0, 5_000_000_000), at(1.5, 8_000_000_000));
        now.set_since(Some(&before), 1.0, 1_000_000);
        assert_eq!((now.processors, now.ns_per_packet, now.threads[0].processors), (0.5, Some(500.0), 0.5));
        assert_eq!(now.clocks_per_packet, cfg!(target_arch = "x86_64").then_some(1500.0));
        assert!(now.details().ends_with("wharf-poller 50 %, wharf-stats 450 %"), "{}", now.details());
        now.set_since(Some(&before), 1.0, 0);
        assert_eq!((now.ns_per_packet, now.text()), (None, "processor 50 %".into()));
    }
}
