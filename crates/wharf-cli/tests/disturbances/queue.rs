//! Disturbances by the program itself: reopenings, settings, memory, senders, waits.

use crate::bed::Bed;
use crate::kind::{ALL, Device, INTERFACES, Kind, Packet, Udp, VETH, Xdp};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use wharf::queue::Bounds;
use wharf_core::engine::Batching;

/// Devices that learn a byte limit.
const LIMITED: &[Device] = &[Packet, Xdp, Udp];

pub const KINDS: &[Kind] = &[
    Kind::new("reopened", ALL, |bed| bed.path.reopen().unwrap()),
    Kind::new("reopened-10-times", ALL, |bed| (0..10).for_each(|_| bed.path.reopen().unwrap())),
    Kind::new("reopened-10-times-slowly", ALL, reopen_slowly),
    Kind::new("reopened-while-down", INTERFACES, reopen_while_down),
    Kind::new("reopened-while-gone", VETH, reopen_while_gone),
    Kind::new("reopened-by-8-threads", ALL, reopen_by_threads),
    Kind::new("batching-changes", ALL, change_batching),
    Kind::new("byte-limits-change", LIMITED, change_limits),
    Kind::new("memory-held", ALL, hold_memory),
    Kind::new("senders-leave-and-come", ALL, churn),
    Kind::new("senders-leave-while-reopened", ALL, churn_and_reopen),
    Kind::new("waits-cancelled", ALL, cancel_waits),
    Kind::new("drained-and-audited", ALL, look_often),
    Kind::new("events-come-and-go", ALL, listen_often),
    Kind::new("failed-by-the-program", ALL, |bed| bed.path.queue().unwrap().fail("the test says so"))
        .errors(),
    Kind::new("closed", ALL, |bed| _ = bed.path.close(Duration::from_millis(50))).errors(),
    Kind::new("closed-while-reopened", ALL, close_while_reopened).errors(),
];

/// Calls `step` until the disturbance is over.
fn repeat(bed: &mut Bed, mut step: impl FnMut(&Bed, u64)) {
    let (began, time) = (Instant::now(), bed.time(50, 300));
    let mut number = 0;
    while began.elapsed() < time {
        step(bed, number);
        number += 1;
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn reopen_slowly(bed: &mut Bed) {
    for _ in 0..10 {
        bed.path.reopen().unwrap();
        let time = bed.time(1, 60);
        std::thread::sleep(time);
    }
}

fn reopen_while_down(bed: &mut Bed) {
    bed.run("ip link set NEAR down");
    bed.path.reopen().unwrap();
    bed.hold();
    bed.run("ip link set NEAR up");
}

fn reopen_while_gone(bed: &mut Bed) {
    bed.run("ip link del va");
    bed.path.reopen().unwrap();
    bed.hold();
    bed.path.reopen().unwrap();
    bed.make_pair("");
}

fn reopen_by_threads(bed: &mut Bed) {
    let path = &bed.path;
    std::thread::scope(|scope| (0..8).for_each(|_| _ = scope.spawn(|| path.reopen().unwrap())));
}

fn change_batching(bed: &mut Bed) {
    repeat(bed, |bed, number| {
        let batching = [Batching::Off, Batching::Bytes(500), Batching::On][number as usize % 3];
        bed.path.queue().unwrap().set_batching(batching);
    });
    bed.path.queue().unwrap().set_batching(Batching::On);
}

fn change_limits(bed: &mut Bed) {
    repeat(bed, |bed, number| {
        let least = Bounds { max_bytes: 100, ..Bounds::LEARN };
        bed.path.queue().unwrap().set_byte_limits([least, Bounds::OFF, Bounds::LEARN][number as usize % 3]);
    });
    bed.path.queue().unwrap().set_byte_limits(Bounds::LEARN);
}

fn hold_memory(bed: &mut Bed) {
    let mut sender = bed.path.sender("holds").unwrap();
    let (mut held, began, time) = (Vec::new(), Instant::now(), bed.time(50, 300));
    while began.elapsed() < time {
        let mut burst = sender.burst(256);
        // Others give back what they have.
        if sender.fill(&mut burst, 256, 100, Duration::from_millis(20)).unwrap_or(0) > 0 {
            held.push(burst);
        }
    }
}

fn churn(bed: &mut Bed) {
    bed.load.shared.churns.store(true, SeqCst);
    bed.hold();
    bed.load.shared.churns.store(false, SeqCst);
}

fn churn_and_reopen(bed: &mut Bed) {
    bed.load.shared.churns.store(true, SeqCst);
    bed.path.reopen().unwrap();
    bed.hold();
    bed.path.reopen().unwrap();
    bed.load.shared.churns.store(false, SeqCst);
}

fn cancel_waits(bed: &mut Bed) {
    repeat(bed, |bed, _| {
        bed.load.shared.cancellers.lock().unwrap().iter().for_each(wharf::queue::Canceller::cancel);
    });
}

fn look_often(bed: &mut Bed) {
    repeat(bed, |bed, _| {
        bed.path.drain(Duration::from_millis(1));
        let _ = (bed.path.queue().unwrap().audit(), bed.path.state(), bed.path.metrics());
    });
}

fn listen_often(bed: &mut Bed) {
    repeat(bed, |bed, number| {
        let mut events = bed.path.events().unwrap();
        if number % 20 == 0 {
            bed.path.reopen().unwrap();
        }
        let _ = events.try_next();
    });
}

fn close_while_reopened(bed: &mut Bed) {
    bed.path.reopen().unwrap();
    let time = bed.time(0, 20);
    std::thread::sleep(time);
    bed.path.close(Duration::from_millis(50));
}
