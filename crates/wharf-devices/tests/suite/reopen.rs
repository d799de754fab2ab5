//! Devices that are opened anew, driven by hand.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use wharf_core::device::{Completions, TxDevice};
use wharf_devices::registry::Registry;
use wharf_devices::reopen::{Change, OnGone, Reopener};
use wharf_devices::spec::{Direction, Queues};

/// Set in the process of a test that lowers the process's limits.
const CHILD: &str = "WHARF_REOPEN_CHILD";

/// Opens `spec`, with a pool's memory. Returns it with its reopener, and the number of times that it was opened again.
fn open(spec: &str) -> (Box<dyn TxDevice>, Arc<Reopener>, Arc<AtomicUsize>) {
    let spec = Registry::default().parse_for(spec, Direction::Send).unwrap();
    let mut opened = spec.open(Direction::Send, Queues::default()).unwrap();
    let around = Reopener::around(&spec, Direction::Send, Queues::default(), OnGone::Wait, &mut opened);
    let (reopener, count) = (around.unwrap().expect("it has a place"), Arc::new(AtomicUsize::new(0)));
    let counts = count.clone();
    reopener.observe(move |change| {
        if matches!(change, Change::Reopened { .. }) {
            counts.fetch_add(1, SeqCst);
        }
    });
    let mut device: Box<dyn TxDevice> = opened.remove(0).device.into_tx().unwrap();
    device.attach(wharf_testkit::pool(16).region().clone()).unwrap();
    (device, reopener, count)
}

fn poll(device: &mut dyn TxDevice) {
    device.reap(1, true, &mut Completions::new(1)).unwrap();
}

/// Polls `device` until it was opened again `times` times.
fn poll_until(device: &mut dyn TxDevice, count: &AtomicUsize, times: usize) {
    let began = Instant::now();
    while count.load(SeqCst) < times {
        assert!(began.elapsed() < Duration::from_secs(10), "opened {} times", count.load(SeqCst));
        poll(device);
        std::thread::sleep(Duration::from_millis(1));
    }
    poll(device);
}

#[test]
fn reset_before_the_new_device_is_taken_replaces_it_too() {
    let (mut device, reopener, count) = open("udp:127.0.0.1:9");
    let (first, again): (_, Weak<Reopener>) = (AtomicBool::new(true), Arc::downgrade(&reopener));
    reopener.observe(move |change| {
        if matches!(change, Change::Reopened { .. }) && first.swap(false, SeqCst) {
            // The device has been opened, and its side has not taken it yet.
            again.upgrade().unwrap().reset();
        }
    });
    reopener.reset();
    // This poll closes it. The next one waits for the observers.
    poll(&mut *device);
    while count.load(SeqCst) < 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(20));
    poll_until(&mut *device, &count, 2);
    assert!(reopener.away().is_none());
}

/// Runs `body` with a limit of no descriptors.
fn without_descriptors(body: impl FnOnce()) {
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let set = |limit: libc::rlimit| {
        // SAFETY: the kernel reads a structure that lives as long as the call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    };
    // SAFETY: the kernel writes a structure that lives as long as the call.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut before) }, 0);
    set(libc::rlimit { rlim_cur: 0, ..before });
    body();
    set(before);
}

#[test]
#[ignore = "wants root"]
fn limit_of_descriptors_below_those_in_use_then_it_is_opened_once_that_is_over() {
    if std::env::var(CHILD).is_err() {
        let name = "reopen::limit_of_descriptors_below_those_in_use_then_it_is_opened_once_that_is_over";
        let mut child = Command::new(std::env::current_exe().unwrap());
        let child = child.args([name, "--exact", "--ignored", "--nocapture"]).env(CHILD, "1");
        return assert!(child.status().unwrap().success());
    }
    wharf_sys::namespace::enter_new_network().expect("wants root");
    // An interface that one file alone may have.
    let (mut device, reopener, count) = open("tap:t0");
    without_descriptors(|| {
        reopener.reset();
        (0..3).for_each(|_| poll(&mut *device));
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(count.load(SeqCst), 0);
    });
    poll_until(&mut *device, &count, 1);
    assert!(reopener.away().is_none());
}
