//! `HostWait`: calls, times and notifications that end a wait.

use std::os::fd::{AsFd, AsRawFd};
use std::thread;
use wharf_core::host::PollerWait;
use wharf_devices::host::HostWait;
use wharf_sys::event::EventFd;

fn told(wait: &mut HostWait, timeout_ns: u64) -> Vec<usize> {
    let mut told = Vec::new();
    wait.wait(timeout_ns, &mut |at| told.push(at));
    told
}

#[test]
fn a_call_ends_one_wait_whenever_it_comes() {
    let mut wait = HostWait::new().unwrap();
    let waker = wait.waker();
    waker.wake();
    waker.wake();
    wait.wait(u64::MAX, &mut |_| {});
    let thread = thread::spawn(move || waker.wake());
    wait.wait(u64::MAX, &mut |_| {});
    thread.join().unwrap();
    assert_eq!(told(&mut wait, 1), [0usize; 0]);
}

#[test]
fn event_after_unmasking_is_reported_once_either_way() {
    let mut wait = HostWait::new().unwrap();
    let events = [EventFd::new().unwrap(), EventFd::new().unwrap()];
    for (at, event) in events.iter().enumerate() {
        assert!(wait.watch(at, event.as_fd().as_raw_fd()));
    }
    assert!(!wait.watch(2, -1));
    events[0].signal();
    wait.unmask(0);
    assert_eq!(told(&mut wait, 0), [0usize; 0], "that was before");
    events[0].signal();
    wait.unmask(1);
    assert_eq!(told(&mut wait, u64::MAX), [0], "not lost to another one's unmasking");
    events[1].signal();
    assert_eq!(told(&mut wait, u64::MAX), [1]);
    for _ in 0..3 {
        wait.mask(1);
        wait.mask(1);
        events[1].signal();
        assert_eq!(told(&mut wait, 1), [0usize; 0]);
        wait.unmask(1);
        wait.unmask(1);
        assert_eq!(told(&mut wait, 1), [0usize; 0], "that was before");
        events[1].signal();
        assert_eq!(told(&mut wait, u64::MAX), [1]);
    }
}

#[test]
fn a_device_that_is_closed_is_no_trouble() {
    let mut wait = HostWait::new().unwrap();
    for is_unmasked in [false, true] {
        let event = EventFd::new().unwrap();
        assert!(wait.watch(0, event.as_fd().as_raw_fd()));
        if is_unmasked {
            wait.unmask(0);
        }
        drop(event);
        wait.unmask(0);
        wait.mask(0);
        assert_eq!(told(&mut wait, 0), [0usize; 0]);
    }
}
