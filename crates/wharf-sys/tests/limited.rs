//! What goes on with a limit of no descriptors. The limit is the process's: one test.

use std::os::fd::{AsFd, AsRawFd};
use wharf_sys::event::{EventFd, signal_shared};

#[test]
fn peer_is_signalled_with_a_limit_of_no_descriptors() {
    let event = EventFd::new().unwrap();
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let set = |limit: libc::rlimit| {
        // SAFETY: the kernel reads a structure that lives as long as the call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    };
    // SAFETY: the kernel writes a structure that lives as long as the call.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut before) }, 0);
    set(libc::rlimit { rlim_cur: 0, ..before });
    signal_shared(event.as_fd().as_raw_fd());
    set(before);
    assert!(event.clear());
}
