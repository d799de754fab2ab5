//! Pauses of a paced sender, in virtual time: what was due meanwhile does not leave as one burst, and the
//! pause is counted.

use proptest::prelude::*;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wharf_core::pool::{Burst, PagePool};
use wharf_core::queue::TxQueue;
use wharf_core::sender::{SendError, Sender};
use wharf_core::wait::Wait;
use wharf_devices::host::{HostClock, HostPark};
use wharf_devices::null::Null;
use wharf_tools::traffic::{Drive, Driven, PAUSE_NS, Pace, Pause, Pauses, Position, Source, Submit, Time};

const MS: u64 = 1_000_000;
/// Gap between two frames at each pace of the tests.
const GAP_NS: u64 = MS;
const FRAME_BYTES: u32 = 100;
/// 1 kpps, in each way in which it can be asked for.
const PACES: [Pace; 3] = [Pace::Packets(1000), Pace::Bits(8 * FRAME_BYTES as u64 * 1000), Pace::ORIGINAL];

/// A clock that only the sender moves, and the time and length of stops, the first one last: the process does
/// not run then.
#[derive(Debug)]
struct Virtual(Mutex<(u64, Vec<(u64, u64)>)>);

impl Virtual {
    fn with_stops(mut stops: Vec<(u64, u64)>) -> Self {
        stops.sort_unstable();
        stops.reverse();
        Self(Mutex::new((0, stops)))
    }

    fn advance(&self, by_ns: u64) {
        let (now_ns, stops) = &mut *self.0.lock().unwrap();
        *now_ns += by_ns;
        while stops.last().is_some_and(|stop| stop.0 <= *now_ns) {
            let (at_ns, length_ns) = stops.pop().unwrap();
            *now_ns = at_ns.max(*now_ns) + length_ns;
        }
    }
}

impl Time for Virtual {
    fn now_ns(&self) -> u64 {
        self.0.lock().unwrap().0
    }

    fn sleep(&self, time: Duration) {
        self.advance(time.as_nanos() as u64);
    }

    fn spin(&self) {
        self.advance(1000);
    }
}

/// A sender that notes when each frame leaves, and takes its time for that.
struct Noted<'a> {
    sender: Sender,
    time: &'a Virtual,
    left_ns: Vec<u64>,
    /// Time that the path takes for so many frames.
    takes_ns: fn(u64, usize) -> u64,
    waits: u64,
}

impl Submit for Noted<'_> {
    fn sender(&mut self) -> &mut Sender {
        &mut self.sender
    }

    fn submit(&mut self, burst: &mut Burst) -> Result<(), SendError> {
        let takes_ns = (self.takes_ns)(self.left_ns.len() as u64, burst.len());
        self.waits += u64::from(takes_ns >= MS);
        self.time.advance(takes_ns);
        self.left_ns.extend(std::iter::repeat_n(self.time.now_ns(), burst.len()));
        self.sender.submit(burst, Wait::Forever).map(drop)
    }

    fn waits(&mut self) -> u64 {
        self.waits
    }
}

/// Frames with a gap of [`GAP_NS`] between two, each there at its time.
struct Frames<'a> {
    time: &'a Virtual,
    next: u64,
    end: u64,
    /// Time at which frame `n` comes.
    comes_ns: fn(u64) -> u64,
    /// Capture time of frame `n`.
    stamp_ns: fn(u64) -> u64,
}

impl Source for Frames<'_> {
    fn remaining(&self) -> u64 {
        self.end - self.next
    }

    fn longest_bytes(&self) -> u32 {
        FRAME_BYTES
    }

    fn len_bytes(&self) -> u32 {
        FRAME_BYTES
    }

    fn position(&self, ahead: u64) -> Position {
        let packets = self.next + ahead;
        let time_ns = (self.stamp_ns)(packets);
        Position { packets, bytes: packets * u64::from(FRAME_BYTES), time_ns }
    }

    fn is_stamped(&self) -> bool {
        false
    }

    fn is_ready(&mut self) -> bool {
        let is_there = (self.comes_ns)(self.next) <= self.time.now_ns();
        if !is_there {
            self.time.advance(20 * MS);
        }
        is_there
    }

    fn write(&mut self, to: &mut [u8], _now_ns: u64) {
        to.fill(7);
        self.next += 1;
    }
}

/// What differs between runs.
#[derive(Clone)]
struct Run {
    pace: Pace,
    catch_up_ns: u64,
    frames: u64,
    stops: Vec<(u64, u64)>,
    takes_ns: fn(u64, usize) -> u64,
    comes_ns: fn(u64) -> u64,
    stamp_ns: fn(u64) -> u64,
}

impl Run {
    fn at(pace: Pace) -> Self {
        let (takes_ns, comes_ns, stamp_ns) = (|_, _| 1000, |_| 0, |frame| frame * GAP_NS);
        let (frames, catch_up_ns) = (4000, PAUSE_NS);
        Self { pace, catch_up_ns, frames, stops: Vec::new(), takes_ns, comes_ns, stamp_ns }
    }

    /// Returns when each frame left, and the end.
    fn run(&self) -> (Vec<u64>, Driven) {
        let pool = PagePool::builder().frames(256).huge_pages(false).build().unwrap();
        let queue =
            TxQueue::builder(&pool, Box::new(Null::default()), Arc::new(HostClock), Arc::new(HostPark));
        let queue = queue.build().unwrap();
        let time = Virtual::with_stops(self.stops.clone());
        let sender = queue.sender("test").unwrap();
        let mut by = Noted { sender, time: &time, left_ns: Vec::new(), takes_ns: self.takes_ns, waits: 0 };
        let Run { comes_ns, stamp_ns, .. } = *self;
        let mut source = Frames { time: &time, next: 0, end: self.frames, comes_ns, stamp_ns };
        let stop = AtomicBool::new(false);
        let Self { pace, catch_up_ns, .. } = *self;
        let drive = Drive { pace, catch_up_ns, ..Drive::top_speed(64, &stop) };
        let driven = drive.run_in(&time, &mut by, &mut source, || false).unwrap();
        assert_eq!((by.left_ns.len() as u64, driven.packets), (self.frames, self.frames));
        let left_ns = std::mem::take(&mut by.left_ns);
        drop(by);
        assert_eq!(queue.shutdown(Duration::ZERO).out(), 0);
        (left_ns, driven)
    }
}

/// The most frames that left within 10 ms.
fn most_in_10_ms(left_ns: &[u64]) -> usize {
    let within = |at: usize| left_ns[at..].iter().take_while(|&&ns| ns < left_ns[at] + 10 * MS).count();
    (0..left_ns.len()).map(within).max().unwrap()
}

/// 100 ms worth of frames, those of 10 ms, and the two at the ends.
const BURST_MAX: usize = (PAUSE_NS / GAP_NS) as usize + 12;

/// True if `total_ns` is that of so many pauses of `length_ns`, each as long as a nap before and a call after
/// it longer.
fn are(pause: Pause, count: u64, length_ns: u64) -> bool {
    pause.count == count
        && (0..=count * 25 * MS).contains(&(pause.total_ns + 20 * MS * count - count * length_ns))
}

#[test]
fn a_stopped_process_does_not_send_what_was_due_meanwhile_as_one_burst() {
    for pace in PACES {
        let (left_ns, driven) = Run { stops: vec![(1000 * MS, 2000 * MS)], ..Run::at(pace) }.run();
        assert!(most_in_10_ms(&left_ns) <= BURST_MAX, "{pace:?}: {}", most_in_10_ms(&left_ns));
        let Pauses { process, device, source } = driven.pauses;
        assert!(are(process, 1, 2000 * MS), "{pace:?}: {process:?}");
        assert_eq!((device, source), (Pause::default(), Pause::default()), "{pace:?}");
        let last_ms = left_ns[3999] / MS;
        assert!((3999 + 1878..=3999 + 1902).contains(&last_ms), "{pace:?}: the schedule moved: {last_ms}");
    }
}

#[test]
fn a_stop_of_less_than_100_ms_is_made_up_for() {
    for pace in PACES {
        let (left_ns, driven) = Run { stops: vec![(1000 * MS, 75 * MS)], ..Run::at(pace) }.run();
        assert_eq!((driven.pauses, left_ns[3999] / MS), (Pauses::default(), 3999), "{pace:?}");
    }
}

#[test]
fn what_is_caught_up_with_is_as_much_as_was_asked_for() {
    for pace in PACES {
        let run =
            |catch_up_ns| Run { catch_up_ns, stops: vec![(1000 * MS, 300 * MS)], ..Run::at(pace) }.run();
        let (left_ns, driven) = run(u64::MAX);
        assert!(are(driven.pauses.process, 1, 300 * MS), "{pace:?}: the hole is there: {:?}", driven.pauses);
        assert_eq!(left_ns[3999] / MS, 3999, "{pace:?}: all of it");
        let (left_ns, driven) = run(10 * MS);
        let last_ms = left_ns[3999] / MS;
        assert!(driven.pauses.process.count == 1 && (4269..=4291).contains(&last_ms), "{pace:?}: {last_ms}");
    }
}

#[test]
fn a_device_that_takes_nothing_for_a_while_is_a_pause_of_its_own() {
    for pace in PACES {
        let takes_ns = |sent, _| if sent == 1000 { 2000 * MS } else { 1000 };
        let (left_ns, driven) = Run { takes_ns, ..Run::at(pace) }.run();
        assert!(most_in_10_ms(&left_ns[1001..]) <= BURST_MAX, "{pace:?}");
        assert!(are(driven.pauses.device, 1, 2000 * MS), "{pace:?}: {:?}", driven.pauses);
        assert_eq!(driven.pauses.process, Pause::default());
    }
}

#[test]
fn a_stream_that_comes_late_leaves_at_its_rate() {
    for pace in PACES {
        let comes_ns = |frame| if frame >= 1000 { 3000 * MS } else { 0 };
        let (left_ns, driven) = Run { comes_ns, ..Run::at(pace) }.run();
        assert!(most_in_10_ms(&left_ns) <= BURST_MAX, "{pace:?}: {}", most_in_10_ms(&left_ns));
        assert!(are(driven.pauses.source, 1, 2000 * MS), "{pace:?}: {:?}", driven.pauses);
    }
}

#[test]
fn a_pause_of_a_stream_begins_when_a_frame_is_due() {
    // After a gap of 2 s in the capture, its next frame comes 1 s late.
    let stamp_ns = |frame| frame * GAP_NS + if frame >= 1000 { 2000 * MS } else { 0 };
    let comes_ns = |frame| if frame >= 1000 { 4000 * MS } else { 0 };
    let (_, driven) = Run { stamp_ns, comes_ns, ..Run::at(Pace::ORIGINAL) }.run();
    let Pause { count, total_ns, .. } = driven.pauses.source;
    assert!(count == 1 && (1000..=1025).contains(&(total_ns / MS)), "{:?}", driven.pauses);
}

#[test]
fn a_rate_that_is_too_high_moves_nothing() {
    // 5 Mpps of 10, and a device that takes 90 ms for each call.
    let (left_ns, driven) = Run {
        frames: 1_000_000,
        takes_ns: |_, frames| 200 * frames as u64,
        ..Run::at(Pace::Packets(10_000_000))
    }
    .run();
    assert_eq!((driven.pauses, left_ns[999_999] / MS), (Pauses::default(), 200));
    let (left_ns, driven) = Run { takes_ns: |_, _| 90 * MS, ..Run::at(Pace::Packets(1000)) }.run();
    assert_eq!(driven.pauses, Pauses::default());
    assert!(left_ns[3999] >= 4000 / 64 * 90 * MS, "it did what it could: {}", left_ns[3999]);
}

#[test]
fn a_capture_whose_time_steps_back_moves_by_no_more_than_the_pause() {
    // Frame 1000 and those behind it are of the capture's first second.
    let stamp_ns = |frame| if frame >= 1000 { (frame - 1000) * GAP_NS } else { frame * GAP_NS };
    let stops = vec![(990 * MS, 150 * MS)];
    let (left_ns, driven) = Run { stops, stamp_ns, ..Run::at(Pace::ORIGINAL) }.run();
    assert_eq!(driven.pauses.process.count, 1);
    let last_ms = left_ns[3999] / MS;
    assert!((2999..=2999 + 152).contains(&last_ms), "{last_ms}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_stops_no_burst_is_longer_than_100_ms_worth(
        stops in prop::collection::vec((0u64..4000, 0u64..1500), 0..8), pace in prop::sample::select(&PACES[..])
    ) {
        let stops: Vec<_> = stops.into_iter().map(|(at, length)| (at * MS, length * MS)).collect();
        let (left_ns, driven) = Run { stops, ..Run::at(pace) }.run();
        prop_assert!(most_in_10_ms(&left_ns) <= BURST_MAX, "{}", most_in_10_ms(&left_ns));
        let moved_ns = left_ns[3999] - 3999 * GAP_NS;
        prop_assert!(moved_ns <= driven.pauses.total_ns() + PAUSE_NS, "{moved_ns} of {:?}", driven.pauses);
        prop_assert!(left_ns.iter().enumerate().all(|(at, &ns)| ns >= at as u64 * GAP_NS), "never early");
    }
}
