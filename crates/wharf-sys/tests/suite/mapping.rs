//! Mappings that a peer may have, too.

use std::io;
use std::os::fd::AsRawFd;
use wharf_sys::mapping::Mapping;

#[test]
fn a_new_mapping_is_of_whole_pages_and_zeroed() {
    let mapping = Mapping::shared_small_pages(5000).unwrap();
    assert_eq!((mapping.len_bytes(), mapping.page_bytes()), (8192, 4096));
    // SAFETY: the last byte of a mapping that lives.
    assert_eq!(unsafe { *mapping.start().as_ptr().add(8191) }, 0);
}

#[test]
fn a_peer_that_truncates_is_refused() {
    let mapping = Mapping::shared(1).unwrap();
    // SAFETY: a plain call on a descriptor.
    let cut = unsafe { libc::ftruncate(mapping.fd().unwrap().as_raw_fd(), 0) };
    assert_eq!((cut, io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EPERM)));
}

#[test]
fn an_absurd_length_is_an_error() {
    assert!(Mapping::shared(usize::MAX).is_err());
}
