//! The wait of a receiver between two polls: it goes on, spins, naps, or sleeps until the device notifies it.

use std::time::Duration;
use wharf_core::device::RxDevice;
use wharf_core::host::Wait;
use wharf_core::poller::schedule::{Action, Event, IrqChange, PollOutcome, Schedule};
use wharf_core::poller::{Mode, Settings};
use wharf_devices::host::HostWait;

/// Polls that find nothing before sleeping: some tens of microseconds, about the least time of a sleep. Yielding instead would put this
/// thread behind all other work of the processors, for milliseconds.
const SPINS: u32 = 1000;
const NAP: Duration = Duration::from_micros(20);
/// After this many polls that found nothing, a fraction of a second, naps are long.
const IDLE_POLLS: u32 = SPINS + 5000;
const LONG_NAP: Duration = Duration::from_micros(500);
/// Longest sleep: a request to stop may come meanwhile.
const SLEEP_NS_MAX: u64 = 20_000_000;
/// Rounds of a pause.
const PAUSES: u32 = 24;

pub(super) struct Idle {
    mode: Mode,
    told: Option<Told>,
    /// Polls in a row that found nothing.
    idle: u32,
}

/// Waits of a device that notifies.
struct Told {
    wait: HostWait,
    schedule: Schedule,
    unarmed: bool,
}

impl Idle {
    pub(super) fn new(mode: Mode, device: &dyn RxDevice) -> Self {
        let tells = device.wait_fd().filter(|_| mode != Mode::Busy).and_then(|fd| {
            let mut wait = HostWait::new().ok()?;
            wait.watch(0, fd).then_some(wait)
        });
        let told = tells.map(|wait| {
            let mut schedule = Schedule::new(Settings { mode, ..Settings::default() }, [true]);
            // The first poll is the caller's, as all others are.
            schedule.step(wait.now_ns(), Event::Began);
            Told { wait, schedule, unarmed: false }
        });
        Self { mode, told, idle: 0 }
    }

    /// Waits after a poll that brought `received` frames, until the next poll is due.
    #[inline]
    pub(super) fn after(&mut self, device: &mut dyn RxDevice, received: usize, budget: usize) {
        if received > 0 {
            self.idle = 0;
            if received == budget {
                return;
            }
        }
        match &mut self.told {
            Some(told) => told.after(device, received),
            None if received == 0 => self.rest(),
            None => {}
        }
    }

    fn rest(&mut self) {
        self.idle = IDLE_POLLS.min(self.idle + 1);
        match self.mode {
            Mode::Busy => std::hint::spin_loop(),
            Mode::Adaptive if self.idle < SPINS => std::hint::spin_loop(),
            _ => std::thread::sleep(if self.idle < IDLE_POLLS { NAP } else { LONG_NAP }),
        }
    }
}

impl Told {
    fn after(&mut self, device: &mut dyn RxDevice, received: usize) {
        let unarmed = std::mem::take(&mut self.unarmed);
        let due_ns = device.next_arrival_ns();
        let mut event = Event::Polled(PollOutcome {
            received: received as u32,
            receives: true,
            unarmed,
            due_ns,
            ..PollOutcome::default()
        });
        loop {
            event = match self.schedule.step(self.wait.now_ns(), event) {
                Action::Poll { irq, .. } => return self.heed(irq, device),
                Action::Pause => {
                    (0..PAUSES).for_each(|_| std::hint::spin_loop());
                    Event::Rested
                }
                Action::Sleep { for_ns } => {
                    self.sleep(for_ns);
                    Event::Rested
                }
            };
        }
    }

    fn heed(&mut self, irq: IrqChange, device: &mut dyn RxDevice) {
        match irq {
            IrqChange::Keep => {}
            IrqChange::Mask => {
                self.wait.mask(0);
                device.disarm();
            }
            IrqChange::Unmask => {
                self.wait.unmask(0);
                self.unarmed = !device.arm();
            }
        }
    }

    fn sleep(&mut self, for_ns: u64) {
        let mut has_told = false;
        self.wait.wait(for_ns.min(SLEEP_NS_MAX), &mut |_| has_told = true);
        if has_told || for_ns > SLEEP_NS_MAX {
            self.schedule.called(self.wait.now_ns(), 0);
        }
    }
}
