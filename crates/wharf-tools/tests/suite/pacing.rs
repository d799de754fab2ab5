//! Sending at a pace, as far as that can be tested without measuring time: no frame leaves before it is due, and
//! each one's lateness is noted.

use std::io::{Cursor, Write};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wharf_core::host::Clock;
use wharf_core::pool::PagePool;
use wharf_core::queue::TxQueue;
use wharf_devices::host::{ExactClock, HostClock, HostPark};
use wharf_devices::pcap::PcapSink;
use wharf_devices::pcap::format::{PcapOptions, PcapReader};
use wharf_tools::traffic::{Drive, GeneratorSpec, Latency, Pace, Position, Schedule, Sizes, Timed};

/// A capture in memory that outlives its writer.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Sends `packets` at `pace`: when each was with the device, after the start, and what was noted.
fn sent(pace: Pace, packets: u64, watches_clock: bool) -> (Vec<u64>, Latency) {
    sent_as(GeneratorSpec::default(), pace, packets, watches_clock)
}

fn sent_as(spec: GeneratorSpec, pace: Pace, packets: u64, watches_clock: bool) -> (Vec<u64>, Latency) {
    let pool = PagePool::builder().frames(64).huge_pages(false).build().unwrap();
    let (file, schedule) = (Shared::default(), Schedule::new(&pool));
    let sink = PcapSink::over(file.clone(), "memory", PcapOptions::default()).unwrap();
    let device = Timed::new(Box::new(sink.clock(Arc::new(ExactClock))), schedule.clone());
    let queue = TxQueue::builder(&pool, Box::new(device), Arc::new(HostClock), Arc::new(HostPark));
    let queue = queue.build().unwrap();
    let spec = GeneratorSpec { sizes: Sizes::Fixed(100), ..spec };
    let mut source = spec.generators().unwrap().remove(0).ending_after(packets);
    let (stop, start_ns) = (AtomicBool::new(false), ExactClock.now_ns());
    // A loaded machine makes pauses: the due times stay all the same.
    let (schedule_of, catch_up_ns) = (Some(&*schedule), u64::MAX);
    let drive = Drive::top_speed(16, &stop);
    let drive = Drive { pace, start_ns, watches_clock, catch_up_ns, schedule: schedule_of, ..drive };
    let driven = drive.run(&mut queue.sender("test").unwrap(), &mut source).unwrap();
    assert_eq!(
        (driven.packets, queue.shutdown(Duration::ZERO).out()),
        (packets.div_ceil(u64::from(spec.super_packets)), 0)
    );
    let bytes = file.0.lock().unwrap().clone();
    let (mut reader, mut frame) = (PcapReader::new(Cursor::new(bytes), "memory").unwrap(), Vec::new());
    let times = std::iter::from_fn(|| reader.next(&mut frame).unwrap());
    (times.map(|record| record.ts_ns - start_ns).collect(), schedule.errors())
}

#[test]
fn no_frame_leaves_before_it_is_due_and_each_is_noted() {
    for (pace, gap_ns) in [
        (Pace::Packets(100_000), 10_000),
        (Pace::Packets(1_000), 1_000_000),
        (Pace::Bits(8_000_000), 100_000), // 800 bits each
        (Pace::Packets(50_000_000), 20),  // faster than it goes: all are late, and none is left out
    ] {
        for watches_clock in [true, false] {
            let (times_ns, mut errors) = sent(pace, 100, watches_clock);
            assert_eq!((times_ns.len(), errors.packets()), (100, 100), "{pace:?}");
            let late_ns: Vec<u64> = times_ns
                .iter()
                .enumerate()
                .map(|(at, &time_ns)| time_ns.checked_sub(gap_ns * at as u64).expect("never early"))
                .collect();
            // The device's clock is read before the frame is written, the one for the error after.
            assert!(errors.max_ns() >= late_ns.into_iter().max().unwrap(), "{pace:?}");
            assert!(errors.quantile_ns(0.5) <= errors.max_ns(), "{pace:?}");
        }
    }
}

#[test]
fn a_super_packet_is_noted_once_wherever_it_is_segmented() {
    let spec = GeneratorSpec { super_packets: 4, ..GeneratorSpec::default() };
    let (times_ns, errors) = sent_as(spec, Pace::Packets(10_000), 200, true);
    assert_eq!((times_ns.len(), errors.packets()), (200, 50));
    assert!(errors.max_ns() < times_ns.into_iter().max().unwrap(), "a time of a frame before: {errors:?}");
}

#[test]
fn at_top_speed_nothing_is_due() {
    assert_eq!(sent(Pace::Top, 100, true).1.packets(), 0);
}

#[test]
fn frames_are_due_at_their_rate() {
    let position = Position { packets: 3_000_000, bytes: 125_000_000, time_ns: 77 };
    assert_eq!(Pace::Top.due_ns(&position), 0);
    assert_eq!(Pace::ORIGINAL.due_ns(&position), 77);
    assert_eq!([500, 2000].map(|speed| Pace::Captured(speed).due_ns(&position)), [154, 38]);
    assert_eq!(Pace::Packets(1_000_000).due_ns(&position), 3_000_000_000);
    assert_eq!(Pace::Bits(1_000_000_000).due_ns(&position), 1_000_000_000);
    let later = Position { packets: 1 << 40, ..position };
    assert_eq!(Pace::Packets(1_000).due_ns(&later), (1 << 40) * 1_000_000);
    assert_eq!(Pace::Bits(0).due_ns(&Position { bytes: u64::MAX, ..position }), u64::MAX);
}
