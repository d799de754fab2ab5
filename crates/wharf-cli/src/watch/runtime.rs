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
    #[serde(skip)]
    id: u32,
    name: String,
    used_s: f64,
    processors: f64,
}

impl Runtime {
    /// Returns what the process has used until now.
    pub(super) fn now() -> Self {
        let (user, kernel) = usage::cpu_seconds();
        let of_thread = |usage::ThreadTime { id, name, seconds }| ThreadTime {
            id,
            name,
            used_s: seconds,
            ..ThreadTime::default()
        };
        let threads = usage::thread_times().into_iter().map(of_thread).collect();
        Self { used_s: user + kernel, threads, ticks: ticks(), ..Self::default() }
    }

    /// Sets what was used in the `seconds` since `before`, in which `packets` packets came.
    pub(super) fn set_since(&mut self, before: Option<&Self>, seconds: f64, packets: u64) {
        let rounded = |value: f64| (value * 1e3).round() / 1e3;
        let used = (self.used_s - before.map_or(0.0, |before| before.used_s)).max(0.0);
        self.processors = rounded(used / seconds);
        let threads = before.map_or(&[][..], |before| &before.threads);
        let mut watched = 0.0;
        for thread in &mut self.threads {
            let earlier = threads.iter().find(|one| one.id == thread.id && one.name == thread.name);
            let used = (thread.used_s - earlier.map_or(0.0, |one| one.used_s)).max(0.0);
            thread.processors = rounded(used / seconds);
            watched += if WATCHERS.contains(&thread.name.as_str()) { used } else { 0.0 };
        }
        // Also the time of threads that have ended.
        let carried = (used - watched).max(0.0);
        let per_packet = |amount: f64| (packets > 0).then(|| (amount / packets as f64 * 10.0).round() / 10.0);
        self.ns_per_packet = per_packet(carried * 1e9);
        self.clocks_per_packet = before.filter(|_| cfg!(target_arch = "x86_64")).and_then(|before| {
            per_packet(carried / seconds * self.ticks.saturating_sub(before.ticks) as f64)
        });
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
        let thread =
            |id, name: &str, used_s| ThreadTime { id, name: name.into(), used_s, ..ThreadTime::default() };
        let at = |used_s, ticks, threads| Runtime { used_s, ticks, threads, ..Runtime::default() };
        // One of the senders ends meanwhile, after another 0.2 s.
        let threads = vec![
            thread(1, "wharf-send-0", 1.0),
            thread(2, "wharf-send-1", 1.0),
            thread(3, "wharf-poller", 1.0),
            thread(4, "wharf-stats", 9.0),
        ];
        let before = at(12.0, 5_000_000_000, threads);
        let threads = vec![
            thread(2, "wharf-send-1", 1.1),
            thread(3, "wharf-poller", 1.2),
            thread(4, "wharf-stats", 13.5),
        ];
        let mut now = at(17.0, 8_000_000_000, threads);
        now.set_since(Some(&before), 1.0, 1_000_000);
        assert_eq!((now.processors, now.ns_per_packet, now.threads[1].processors), (5.0, Some(500.0), 0.2));
        assert_eq!(now.clocks_per_packet, cfg!(target_arch = "x86_64").then_some(1500.0));
        let details = now.details();
        assert!(details.ends_with("wharf-send-1 10 %, wharf-poller 20 %, wharf-stats 450 %"), "{details}");
        now.set_since(Some(&before), 1.0, 0);
        assert_eq!((now.ns_per_packet, now.text()), (None, "processor 500 %".into()));
    }
}
