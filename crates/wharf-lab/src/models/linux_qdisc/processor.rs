//! The choice of a processor's next work. Softirqs go before processes. An interrupt cuts a process's own
//! work, which continues afterwards.

use super::softirq::Softirq;
use super::xmit::Xmit;
use super::{Kernel, Setup};
use std::collections::VecDeque;
use wharf_sim::engine::Agenda;
use wharf_sim::engine::cpu::{Cpu, Mode, Spent};
use wharf_sim::nic::simple::Hardware;

/// The work that ends at a processor's event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// None: it was woken, or is to wake.
    Idle,
    /// A process has made a packet.
    Making,
    /// A step of a transmit.
    Xmit,
    /// Spinning for a lock: no event until it gets that.
    Spinning,
    /// A step of a softirq.
    Softirq,
}

/// One processor.
#[derive(Debug)]
pub(super) struct Processor {
    pub(super) cpu: Cpu,
    pub(super) doing: Work,
    /// The stream whose process runs here.
    pub(super) process: Option<usize>,
    pub(super) ready: VecDeque<usize>,
    /// The rest of the process's work when an interrupt came.
    cut_ns: Option<u64>,
    pub(super) in_softirq: bool,
    pub(super) softirq: Softirq,
    pub(super) xmit: Xmit,
}

impl Processor {
    pub(super) fn new(number: usize, setup: &Setup) -> Self {
        // The kernel, too, spreads the ticks of its processors.
        let tick = setup.costs.tick;
        let first_ns = tick.every_ns * (number as u64 + 1) / (setup.cpus as u64 + 1);
        Self {
            cpu: Cpu::new(tick, first_ns),
            doing: Work::Idle,
            process: None,
            ready: VecDeque::new(),
            cut_ns: None,
            in_softirq: false,
            softirq: Softirq::default(),
            xmit: Xmit::default(),
        }
    }

    /// Returns its time up to `now_ns`, without the spinning for a lock that it does not have yet.
    pub(super) fn spent_until(&self, now_ns: u64) -> Spent {
        let mut spent = self.cpu.spent_until(now_ns);
        // Work was charged when it began; the part that an interrupt has cut off is still to come.
        spent.modes_ns[Mode::System as usize] -= self.cut_ns.unwrap_or(0);
        spent
    }

    /// Returns the mode in which it spends its time.
    pub(super) fn mode(&self) -> Mode {
        if self.in_softirq { Mode::Soft } else { Mode::System }
    }
}

impl<H: Hardware> Kernel<H> {
    /// Lets processor `at` work for `work_ns`, and then be done with `doing`.
    #[inline]
    pub(super) fn work(&mut self, at: usize, now_ns: u64, work_ns: u64, doing: Work, agenda: &mut Agenda) {
        let processor = &mut self.processors[at];
        let mode = processor.mode();
        processor.doing = doing;
        let end_ns = processor.cpu.work(now_ns, work_ns, mode);
        agenda.set(at, end_ns);
    }

    #[inline]
    pub(super) fn processor_acts(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        match self.processors[at].doing {
            Work::Xmit => self.xmit_step(at, now_ns, agenda),
            Work::Making => self.packet_made(at, now_ns, agenda),
            Work::Softirq => self.softirq_step(at, now_ns, agenda),
            Work::Idle => self.proceed(at, now_ns, agenda),
            Work::Spinning => debug_assert!(false, "whoever spins has nothing due"),
        }
    }

    /// Ends a piece of work; an interrupt may come before the next.
    #[inline]
    pub(super) fn proceed(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let processor = &mut self.processors[at];
        if processor.in_softirq || processor.softirq.is_pending() {
            processor.in_softirq = true;
            return self.next_softirq(at, now_ns, agenda);
        }
        self.next_process(at, now_ns, agenda);
    }

    /// Returns from the softirqs to the work that they interrupted.
    pub(super) fn leave_softirq(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let processor = &mut self.processors[at];
        processor.in_softirq = false;
        match processor.cut_ns.take() {
            Some(left_ns) => {
                processor.doing = Work::Making;
                let mode = processor.mode();
                processor.cpu.goes_on(now_ns, left_ns, mode);
                agenda.set(at, now_ns + left_ns);
            }
            None => self.next_process(at, now_ns, agenda),
        }
    }

    /// Raises a softirq: at once if the processor idles or is in its process's own work.
    pub(super) fn raise(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let processor = &mut self.processors[at];
        match processor.doing {
            Work::Idle if agenda.due_ns(at).is_none() => {
                agenda.set(at, now_ns + self.setup.costs.idle_exit_ns);
            }
            Work::Making => {
                let end_ns = agenda.due_ns(at).unwrap_or(now_ns);
                processor.cut_ns = Some(end_ns.saturating_sub(now_ns));
                agenda.clear(at);
                self.proceed(at, now_ns, agenda);
            }
            _ => {}
        }
    }
}
