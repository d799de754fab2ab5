//! Sets of descriptors: events are reported once.

use std::os::fd::{AsFd, AsRawFd};
use wharf_sys::epoll::Epoll;
use wharf_sys::event::EventFd;

fn taken(epoll: &Epoll) -> Vec<u64> {
    let mut numbers = Vec::new();
    epoll.take_events(|number| numbers.push(number));
    numbers
}

#[test]
fn an_event_is_reported_once_and_a_masked_one_never() {
    let (epoll, event) = (Epoll::new().unwrap(), EventFd::new().unwrap());
    let fd = event.as_fd().as_raw_fd();
    epoll.add(fd, 7, false).unwrap();
    event.signal();
    assert_eq!(taken(&epoll), []);
    epoll.set(fd, 7, true).unwrap();
    assert_eq!(
        (taken(&epoll), taken(&epoll)),
        (vec![7], vec![]),
        "readable when it is unmasked: reported once"
    );
    event.signal();
    epoll.wait(u64::MAX);
    assert_eq!((taken(&epoll), taken(&epoll)), (vec![7], vec![]));
    epoll.set(fd, 7, false).unwrap();
    event.signal();
    epoll.wait(1);
    assert_eq!(taken(&epoll), []);
    assert!(epoll.add(-1, 0, true).is_err() && epoll.add(fd, 8, true).is_err());
}

#[test]
fn a_set_in_a_set_reports_each_event_again() {
    let (outer, inner, event) = (Epoll::new().unwrap(), Epoll::new().unwrap(), EventFd::new().unwrap());
    inner.add(event.as_fd().as_raw_fd(), 1, true).unwrap();
    outer.add(inner.as_raw_fd(), 2, true).unwrap();
    for _ in 0..3 {
        // The counter stays readable: each signal is an event all the same.
        event.signal();
        assert_eq!((taken(&outer), taken(&inner)), (vec![2], vec![1]));
        assert_eq!((taken(&outer), taken(&inner)), (vec![], vec![]));
    }
    event.signal();
    event.signal();
    assert_eq!(taken(&outer), [2], "no event is reported twice, though the inner set has more");
    event.signal();
    assert_eq!(taken(&outer), [2]);
    inner.remove(event.as_fd().as_raw_fd()).unwrap();
    event.signal();
    assert_eq!(taken(&inner), []);
}
