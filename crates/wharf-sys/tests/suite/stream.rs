//! Bytes that are peeked at.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use wharf_sys::stream::{has_ended, peek, unread_bytes};

#[test]
fn peeked_bytes_are_still_unread() {
    let (mut near, mut far) = UnixStream::pair().unwrap();
    let mut bytes = [0; 4];
    assert_eq!(peek(near.as_fd(), &mut bytes).unwrap(), None);
    far.write_all(b"ab").unwrap();
    far.write_all(b"cdef").unwrap();
    assert_eq!((peek(near.as_fd(), &mut bytes).unwrap(), &bytes), (Some(4), b"abcd"));
    assert_eq!(unread_bytes(near.as_fd()).unwrap(), 6);
    let mut read = [0; 6];
    near.read_exact(&mut read).unwrap();
    assert_eq!(&read, b"abcdef");
    assert!(!has_ended(near.as_fd()));
    drop(far);
    assert!(has_ended(near.as_fd()));
    assert_eq!(peek(near.as_fd(), &mut bytes).unwrap(), Some(0));
}
