//! Devices that are opened anew, driven by hand.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use wharf_core::device::{Completions, TxDevice};
use wharf_devices::registry::Registry;
use wharf_devices::reopen::{Change, OnGone, Reopener};
use wharf_devices::spec::{Direction, Queues};

#[test]
fn reset_before_the_new_device_is_taken_replaces_it_too() {
    let spec = Registry::default().parse_for("udp:127.0.0.1:9", Direction::Send).unwrap();
    let mut opened = spec.open(Direction::Send, Queues::default()).unwrap();
    let around = Reopener::around(&spec, Direction::Send, Queues::default(), OnGone::Wait, &mut opened);
    let reopener = around.unwrap().expect("an address is a place");
    let count = Arc::new(AtomicUsize::new(0));
    let (counts, again): (_, Weak<Reopener>) = (count.clone(), Arc::downgrade(&reopener));
    reopener.observe(move |change| {
        if matches!(change, Change::Reopened { .. }) && counts.fetch_add(1, SeqCst) == 0 {
            // The device has been opened, and its side has not taken it yet.
            again.upgrade().unwrap().reset();
        }
    });
    let mut device: Box<dyn TxDevice> = opened.remove(0).device.into_tx().unwrap();
    let pool = wharf_testkit::pool(16);
    device.attach(pool.region().clone()).unwrap();
    reopener.reset();
    let began = Instant::now();
    let mut poll = || {
        assert!(began.elapsed() < Duration::from_secs(10), "opened {} times", count.load(SeqCst));
        device.reap(1, true, &mut Completions::new(1)).unwrap();
    };
    // This poll closes it; the observer is faster than the next one.
    poll();
    while count.load(SeqCst) < 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(20));
    while count.load(SeqCst) < 2 {
        poll();
        std::thread::sleep(Duration::from_millis(1));
    }
    poll();
    assert!(reopener.away().is_none());
}
