//! The processor's next work: the poll of an interrupt, runs of the qdisc, streams held back.
//!
//! As in `ixgbe_poll`, completions come first, then incoming packets one by one. An acknowledgement lets TCP
//! send, and `dev_queue_xmit` runs the qdisc at once, in the middle of the poll. The packets behind it in the
//! receive ring, perhaps the answer to a probe, wait until the driver has stopped. A queue opened by
//! completions alone is run after the poll (`NET_TX_SOFTIRQ`). Streams that small queues held back send after
//! that (a tasklet).

use super::{Answer, HIGH, Host, NORMAL, PROBES};
use crate::models::linux_tcp_host::Setup;
use crate::models::linux_tcp_host::setup::Probe;
use std::time::Duration;
use wharf_sim::RunError;
use wharf_sim::engine::{Agenda, take_due};

/// The pending work, in this order; incoming packets come after `polls`, while the interrupt is masked.
#[derive(Debug, Default)]
pub(in crate::models::linux_tcp_host) struct Tasks {
    /// A packet was enqueued: run the qdisc.
    pub(in crate::models::linux_tcp_host) runs: bool,
    /// An interrupt has come.
    pub(in crate::models::linux_tcp_host) polls: bool,
    /// Completions have opened the queue.
    scheduled: bool,
    /// Streams that small queues released.
    released: Vec<usize>,
}

impl Host {
    /// Does the next step. Returns its time, or `None` if there is nothing to do.
    pub(in crate::models::linux_tcp_host) fn next_step(
        &mut self, now_ns: u64, agenda: &mut Agenda,
    ) -> Option<u64> {
        loop {
            if self.tasks.runs {
                if let Some(work_ns) = self.transmit() {
                    return Some(work_ns);
                }
                self.tasks.runs = false;
            }
            if std::mem::take(&mut self.tasks.polls) {
                return Some(self.reclaim(now_ns));
            }
            if self.nic.masked {
                if let Some(answer) = take_due(&mut self.answers, now_ns) {
                    return Some(self.receive(answer, now_ns, agenda));
                }
                self.nic.masked = false;
            }
            if std::mem::take(&mut self.tasks.scheduled) {
                self.tasks.runs = true;
                continue;
            }
            let number = self.tasks.released.pop()?;
            let work_ns = self.pump(number, now_ns);
            if work_ns > 0 {
                return Some(work_ns);
            }
        }
    }

    /// Frees the packets that have left.
    fn reclaim(&mut self, now_ns: u64) -> u64 {
        let costs = self.setup.costs;
        let (mut work_ns, mut bytes) = (costs.interrupt_ns, 0u32);
        while let Some(packet) = self.nic.next_left(now_ns) {
            bytes += packet.bytes;
            work_ns += costs.reclaim_ns;
            if packet.last
                && let Some(number) = self.frees(packet.index)
                && !self.tasks.released.contains(&number)
            {
                self.tasks.released.push(number);
            }
        }
        if bytes > 0 {
            let before = self.bql.limit();
            if let Err(error) = self.bql.completed(bytes, Duration::from_nanos(now_ns)) {
                self.fault = Some(RunError::Order { what: error.to_string() });
            }
            if self.bql.limit() != before {
                self.limits.push((now_ns, self.bql.limit()));
            }
            self.tasks.scheduled = true;
        }
        work_ns
    }

    /// Handles one incoming packet.
    fn receive(&mut self, answer: Answer, now_ns: u64, agenda: &mut Agenda) -> u64 {
        let work_ns = self.setup.costs.receive_ns;
        match answer {
            Answer::Ack(number, ack) => {
                self.streams[number].source.acked(now_ns, &ack);
                work_ns + self.pump(number, now_ns)
            }
            Answer::Probe(kind, probe) => {
                self.answered(kind, probe, now_ns + work_ns, agenda);
                work_ns
            }
        }
    }

    /// Delivers a probe's answer to its program, which may ask again.
    fn answered(&mut self, kind: Kind, probe: Probe, now_ns: u64, agenda: &mut Agenda) {
        if !kind.follows() {
            return;
        }
        let next_ns = now_ns + self.random.around(self.setup.think_ns, self.setup.time.jitter_permille);
        agenda.set(PROBES + kind as usize, next_ns);
        if kind == Kind::Udp {
            self.probes.push(Probe { transaction_ns: next_ns - probe.sent_ns, ..probe });
        }
    }
}

/// The kind of a probe: a small packet whose answer its program waits for. All are sent at once, as
/// netperf-wrapper's `qdisc_prio_hol` of 2014 does: UDP_RR and TCP_RR of high priority, which ask again when
/// answered, and two echo requests at intervals. The measured delay is that of UDP_RR. The others matter,
/// too: a few bytes more or less decide whether a bulk of super-packets ends where the driver stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::models::linux_tcp_host) enum Kind {
    Udp,
    Tcp,
    /// Echo requests of high priority and of none.
    Ping,
    PlainPing,
}

impl Kind {
    pub(in crate::models::linux_tcp_host) const ALL: [Kind; 4] =
        [Kind::Udp, Kind::Tcp, Kind::Ping, Kind::PlainPing];

    /// True if it asks again as soon as it is answered; the others go by the clock.
    pub(in crate::models::linux_tcp_host) fn follows(self) -> bool {
        matches!(self, Kind::Udp | Kind::Tcp)
    }

    pub(in crate::models::linux_tcp_host) fn band(self) -> u8 {
        if self == Kind::PlainPing { NORMAL } else { HIGH }
    }

    /// Returns its bytes as the driver counts them.
    pub(in crate::models::linux_tcp_host) fn bytes(self, setup: &Setup) -> u32 {
        match self {
            Kind::Udp => setup.udp_probe_bytes,
            Kind::Tcp => setup.tcp_probe_bytes,
            Kind::Ping | Kind::PlainPing => setup.ping_bytes,
        }
    }
}
