//! Disturbances of the whole process: processors, descriptors, stops.

use crate::bed::{Bed, Process};
use crate::kind::{ALL, INTERFACES, Kind};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

pub const KINDS: &[Kind] = &[
    Kind::new("processors-busy", ALL, |bed| among_busy(bed, Bed::hold)),
    Kind::new("reopened-while-processors-are-busy", ALL, |bed| {
        among_busy(bed, |bed| {
            bed.path.reopen().unwrap();
            bed.hold();
        });
    }),
    Kind::new("no-descriptors-while-reopened", ALL, |bed| {
        among_no_descriptors(|| {
            bed.path.reopen().unwrap();
            bed.hold();
        });
    }),
    Kind::new("no-descriptors", ALL, |bed| among_no_descriptors(|| bed.hold())),
    Kind::new("process-stopped", ALL, stop),
    Kind::new("process-stopped-while-reopened", ALL, |bed| {
        bed.path.reopen().unwrap();
        stop(bed);
    }),
    Kind::new("interface-down-while-processors-are-busy", INTERFACES, |bed| {
        among_busy(bed, |bed| bed.for_a_while("ip link set NEAR down", "ip link set NEAR up"));
    }),
];

/// Runs a loop on each processor meanwhile.
fn among_busy(bed: &mut Bed, disturb: impl FnOnce(&mut Bed)) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().unwrap().get() {
            scope.spawn(|| {
                while !over.load(SeqCst) {
                    std::hint::spin_loop()
                }
            });
        }
        disturb(bed);
        over.store(true, SeqCst);
    });
}

/// Lets the process open no further file meanwhile.
fn among_no_descriptors(disturb: impl FnOnce()) {
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes a structure that lives as long as the call.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut before) }, 0);
    let set = |limit: libc::rlimit| {
        // SAFETY: the kernel reads a structure that lives as long as the call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    };
    set(libc::rlimit { rlim_cur: 0, ..before });
    disturb();
    set(before);
}

/// Another process stops this one for a while.
fn stop(bed: &mut Bed) {
    let time = bed.time(50, 300);
    // No sender can be in time meanwhile.
    bed.load.shared.excused_ns.store((time + Duration::from_millis(100)).as_nanos() as u64, SeqCst);
    let own = std::process::id();
    let script = format!("kill -STOP {own}; sleep {}; kill -CONT {own}", time.as_secs_f64());
    Process::start(Command::new("sh").args(["-c", &script])).wait();
}
