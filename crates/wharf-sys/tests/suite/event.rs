//! Event counters of this process and of a peer.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use wharf_sys::event::{EventFd, take_shared};

#[test]
fn a_signalled_counter_is_readable_until_it_is_cleared() {
    let event = EventFd::new().unwrap();
    assert!(!event.clear());
    event.signal();
    event.signal();
    event.wait().unwrap();
    assert_eq!((event.clear(), event.clear()), (true, false));
}

#[test]
fn a_full_counter_of_a_peer_does_not_block() {
    // SAFETY: a number in, a descriptor out, which nothing else owns.
    let blocking = unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, 0)) };
    let event = EventFd::of_peer(blocking.try_clone().unwrap()).unwrap();
    let full = (u64::MAX - 1).to_ne_bytes();
    // SAFETY: eight readable bytes.
    let written = unsafe { libc::write(blocking.as_raw_fd(), full.as_ptr().cast(), full.len()) };
    assert_eq!(written, 8);
    event.signal();
    assert!(event.clear());
    // The peer has made it blocking again and filled it; then it has emptied it.
    // SAFETY: plain calls on a descriptor that is open, and eight readable bytes.
    unsafe {
        libc::fcntl(blocking.as_raw_fd(), libc::F_SETFL, 0);
        libc::write(blocking.as_raw_fd(), full.as_ptr().cast(), full.len());
    }
    event.signal();
    assert_eq!(take_shared(blocking.as_raw_fd()), u64::MAX - 1);
    assert_eq!(take_shared(blocking.as_raw_fd()), 0);
    event.signal();
    assert_eq!(take_shared(blocking.as_raw_fd()), 1);
    let file = std::fs::File::open("/dev/null").unwrap();
    let error = EventFd::of_peer(file.into()).unwrap_err();
    assert_eq!(error.to_string(), "/dev/null is no eventfd");
}
