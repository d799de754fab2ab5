//! The schedule step by step, and over devices with random events.

use wharf_core::poller::schedule::*;

fn schedule(mode: Mode, tells: &[bool]) -> Schedule {
    Schedule::new(Settings { mode, ..Settings::default() }, tells.iter().copied())
}

fn poll(at: usize, irq: IrqChange) -> Action {
    Action::Poll { at, irq, away: irq == IrqChange::Unmask }
}

const NOTHING: PollOutcome = PollOutcome {
    received: 0,
    sent: 0,
    completed: 0,
    more: false,
    in_device: 0,
    blocked: false,
    waiting: false,
    busy: false,
    unarmed: false,
    due_ns: None,
    receives: false,
    over: false,
};
const LISTENS: PollOutcome = PollOutcome { receives: true, ..NOTHING };
const FOREVER: Action = Action::Sleep { for_ns: u64::MAX };

#[test]
fn notifying_device_is_polled_after_unmasking_and_masked_while_it_has_work() {
    let mut schedule = schedule(Mode::Sleeping, &[true]);
    assert_eq!(schedule.step(0, Event::Began), poll(0, IrqChange::Keep));
    assert_eq!(schedule.step(0, Event::Polled(LISTENS)), poll(0, IrqChange::Unmask));
    // The event came between the first poll and the unmasking.
    let some = PollOutcome { received: 3, ..LISTENS };
    assert_eq!(schedule.step(0, Event::Polled(some)), poll(0, IrqChange::Mask));
    assert_eq!(schedule.step(0, Event::Polled(LISTENS)), poll(0, IrqChange::Unmask));
    assert_eq!(schedule.step(0, Event::Polled(LISTENS)), FOREVER);
    schedule.called(9, 0);
    assert_eq!(schedule.step(9, Event::Rested), poll(0, IrqChange::Mask));
}

#[test]
fn partly_notifying_device_is_polled_now_and_then() {
    let mut schedule = schedule(Mode::Sleeping, &[true]);
    let quiet = PollOutcome { due_ns: Some(1000), ..LISTENS };
    schedule.step(0, Event::Began);
    for now_ns in [0, 1000, 2000] {
        assert_eq!(schedule.step(now_ns, Event::Polled(quiet)), poll(0, IrqChange::Unmask));
        assert_eq!(schedule.step(now_ns, Event::Polled(quiet)), Action::Sleep { for_ns: 1000 });
        assert_eq!(schedule.step(now_ns + 1000, Event::Rested), poll(0, IrqChange::Mask));
    }
}

#[test]
fn pending_event_refuses_the_unmasking() {
    let mut schedule = schedule(Mode::Sleeping, &[true]);
    schedule.step(0, Event::Began);
    assert_eq!(schedule.step(0, Event::Polled(LISTENS)), poll(0, IrqChange::Unmask));
    let unarmed = PollOutcome { unarmed: true, ..LISTENS };
    assert_eq!(schedule.step(0, Event::Polled(unarmed)), poll(0, IrqChange::Mask));
}

#[test]
fn call_during_a_poll_polls_again() {
    let mut schedule = schedule(Mode::Sleeping, &[false]);
    schedule.step(0, Event::Began);
    schedule.called(0, 0);
    assert_eq!(schedule.step(0, Event::Polled(NOTHING)), poll(0, IrqChange::Keep));
    assert_eq!(schedule.step(0, Event::Polled(NOTHING)), FOREVER);
}

#[test]
fn busy_mode_never_sleeps_or_unmasks() {
    let mut schedule = schedule(Mode::Busy, &[true, true]);
    let mut action = schedule.step(0, Event::Began);
    for round in 0..100 {
        assert_eq!(action, poll(round % 2, IrqChange::Keep));
        action = schedule.step(0, Event::Polled(LISTENS));
        if round % 2 == 1 {
            assert_eq!(action, Action::Pause, "a round that found nothing");
            action = schedule.step(0, Event::Rested);
        }
    }
}

#[test]
fn adaptive_mode_spins_after_arrivals_and_learns_for_how_long() {
    let mut schedule = schedule(Mode::Adaptive, &[true]);
    // Spins until it sleeps; the time of that.
    let until_asleep = |schedule: &mut Schedule, from_ns: u64| {
        let mut now_ns = from_ns;
        let mut action = schedule.step(now_ns, Event::Polled(PollOutcome { received: 1, ..LISTENS }));
        loop {
            now_ns += 100;
            action = match action {
                Action::Poll { .. } => schedule.step(now_ns, Event::Polled(LISTENS)),
                Action::Pause => schedule.step(now_ns, Event::Rested),
                Action::Sleep { .. } => return now_ns - from_ns,
            };
        }
    };
    schedule.step(1, Event::Began);
    let first_ns = until_asleep(&mut schedule, 1);
    assert!((50_000..60_000).contains(&first_ns), "{first_ns}");
    let mut now_ns = 1_000_000;
    // Frames a millisecond apart: spinning is given up; then 40 us apart: it is taken up again.
    for (apart_ns, spins) in [(1_000_000, false), (40_000, true)] {
        let mut last_ns = 0;
        for _ in 0..8 {
            now_ns += apart_ns;
            schedule.called(now_ns, 0);
            assert_eq!(schedule.step(now_ns, Event::Rested), poll(0, IrqChange::Mask));
            last_ns = until_asleep(&mut schedule, now_ns);
            now_ns += last_ns;
        }
        assert_eq!(last_ns > 40_000, spins, "{last_ns}");
    }
}

#[test]
fn naps_follow_the_completions() {
    let mut schedule = schedule(Mode::Adaptive, &[false]);
    schedule.step(0, Event::Began);
    let mut nap = |found: PollOutcome, now_ns: u64| match schedule.step(now_ns, Event::Polled(found)) {
        Action::Sleep { for_ns } => {
            assert!(matches!(schedule.step(now_ns + for_ns, Event::Rested), Action::Poll { .. }));
            for_ns
        }
        other => panic!("{other:?}"),
    };
    let none = PollOutcome { in_device: 100, ..NOTHING };
    let all = PollOutcome { completed: 100, blocked: true, waiting: true, ..NOTHING };
    let half = PollOutcome { completed: 50, in_device: 50, blocked: true, ..NOTHING };
    assert_eq!(nap(none, 0), 70_000);
    let longer: Vec<u64> = (1..8).map(|n| nap(none, n << 30)).collect();
    assert_eq!(longer, [140_000, 280_000, 560_000, 1_000_000, 1_000_000, 1_000_000, 1_000_000]);
    assert_eq!((nap(half, 9 << 30), nap(half, 10 << 30)), (70_000, 70_000));
    let shorter: Vec<u64> = (11..14).map(|n| nap(all, n << 30)).collect();
    assert_eq!(shorter, [35_000, 20_000, 20_000]);
    let few = PollOutcome { completed: 1, in_device: 99, ..NOTHING };
    assert_eq!((nap(few, 14 << 30), nap(few, 15 << 30), nap(few, 16 << 30)), (40_000, 70_000, 70_000));
    // The device knows when the next frame is due.
    assert_eq!(nap(PollOutcome { due_ns: Some(300), ..none }, 19 << 30), 300);
    assert_eq!(nap(PollOutcome { due_ns: Some(u64::MAX), ..none }, 20 << 30), 1_000_000);
}

#[test]
fn busy_device_leaves_others_their_turns_and_events() {
    let mut schedule = schedule(Mode::Sleeping, &[true, true, false]);
    let flood = PollOutcome { received: 64, more: true, ..LISTENS };
    let (mut action, mut now_ns, mut naps, mut looks, mut others) =
        (schedule.step(0, Event::Began), 0, 0, 0, 0);
    for n in 0..10_000 {
        now_ns += 1_000;
        action = match action {
            Action::Poll { at: 0, .. } => schedule.step(now_ns, Event::Polled(flood)),
            Action::Poll { at: 1, irq, .. } => {
                others += u32::from(irq == IrqChange::Mask);
                schedule.step(now_ns, Event::Polled(LISTENS))
            }
            Action::Poll { .. } => {
                naps += 1;
                schedule.step(now_ns, Event::Polled(PollOutcome { in_device: 1, ..NOTHING }))
            }
            Action::Sleep { for_ns } => {
                assert_eq!(for_ns, 0, "there is always work");
                looks += 1;
                if n > 5_000 {
                    schedule.called(now_ns, 1);
                }
                schedule.step(now_ns, Event::Rested)
            }
            Action::Pause => panic!("there is always work"),
        };
    }
    assert!(naps >= 9 && looks > 400 && others > 100, "{naps} naps, {looks} looks, {others} events");
}

/// The true state of a device, which the schedule cannot see.
#[derive(Default)]
struct Hidden {
    arrived: u32,
    in_device: u32,
    done: u32,
    unmasked: bool,
    told: bool,
    tells: bool,
    receives: bool,
}

impl Hidden {
    fn event(&mut self) {
        self.told |= self.unmasked && self.tells;
    }

    fn found(&mut self, budget: u32, busy: bool) -> PollOutcome {
        if busy {
            return PollOutcome { busy, receives: self.receives, ..NOTHING };
        }
        let (received, completed) = (self.arrived.min(budget), self.done);
        self.arrived -= received;
        (self.in_device, self.done) = (self.in_device - completed, 0);
        let (more, receives, in_device) = (self.arrived > 0, self.receives, self.in_device);
        PollOutcome { received, completed, more, in_device, receives, ..NOTHING }
    }
}

/// Devices with random events between steps; only a sender that hands a frame to an idle device calls.
struct Chaos {
    seed: u64,
    state: u64,
    devices: Vec<Hidden>,
    schedule: Schedule,
    now_ns: u64,
    sleeps: u32,
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let schedule = schedule(Mode::Adaptive, &[]);
        let state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut chaos = Self { seed, state, devices: Vec::new(), schedule, now_ns: 1, sleeps: 0 };
        let mode = [Mode::Adaptive, Mode::Sleeping][chaos.random(2) as usize];
        for _ in 0..1 + chaos.random(4) {
            let (tells, receives) = (chaos.random(2) == 0, chaos.random(2) == 0);
            chaos.devices.push(Hidden { tells, receives, ..Hidden::default() });
        }
        let tells: Vec<bool> = chaos.devices.iter().map(|device| device.tells).collect();
        chaos.schedule = self::schedule(mode, &tells);
        chaos
    }

    fn random(&mut self, below: u64) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % below
    }

    /// Makes a random event at a random device.
    fn happen(&mut self) {
        self.now_ns += self.random(2000);
        for at in 0..self.devices.len() {
            let (what, arrive, sent) = (self.random(40), 1 + self.random(100), 1 + self.random(9));
            let device = &mut self.devices[at];
            match what {
                0 if device.receives => {
                    device.arrived += arrive as u32;
                    device.event();
                }
                1 => {
                    // A sender: it calls if the device was empty.
                    let idle = device.in_device == 0;
                    device.in_device += sent as u32;
                    if idle {
                        self.schedule.called(self.now_ns, at);
                    }
                }
                2 if device.in_device > device.done => {
                    device.done += 1;
                    device.event();
                }
                _ => {}
            }
        }
    }

    fn step(&mut self, event: Event) -> Event {
        match self.schedule.step(self.now_ns, event) {
            Action::Poll { at, irq, .. } => self.poll(at, irq),
            Action::Pause => Event::Rested,
            Action::Sleep { for_ns } => self.sleep(for_ns),
        }
    }

    fn poll(&mut self, at: usize, irq: IrqChange) -> Event {
        let busy = self.random(20) == 0;
        let device = &mut self.devices[at];
        match irq {
            IrqChange::Keep => {}
            IrqChange::Mask => (device.unmasked, device.told) = (false, false),
            IrqChange::Unmask => (device.unmasked, device.told) = (true, false),
        }
        Event::Polled(device.found(64, busy))
    }

    /// Asserts that every pending frame would end the sleep.
    fn sleep(&mut self, for_ns: u64) -> Event {
        let told: Vec<usize> = (0..self.devices.len()).filter(|&at| self.devices[at].told).collect();
        let seed = self.seed;
        for device in &self.devices {
            let lies = device.arrived > 0 || device.done > 0;
            let ends = device.told || for_ns < u64::MAX || !told.is_empty();
            assert!(!lies || ends, "seed {seed}: work lies in a device, and nothing ends the sleep");
            let looks = device.tells || !device.receives || for_ns < u64::MAX;
            assert!(looks, "seed {seed}: never again");
        }
        self.sleeps += 1;
        for &at in &told {
            self.devices[at].told = false;
            self.schedule.called(self.now_ns, at);
        }
        if told.is_empty() && for_ns < u64::MAX {
            self.now_ns += for_ns;
        }
        Event::Rested
    }
}

#[test]
fn event_at_any_time_is_polled() {
    for seed in 1..400 {
        let (mut chaos, mut event) = (Chaos::new(seed), Event::Began);
        for _ in 0..3000 {
            chaos.happen();
            event = chaos.step(event);
        }
        assert!(chaos.sleeps > 0, "seed {seed}");
    }
}
