//! `Incoming`: the arrays and buffers of `recvmmsg(2)`.

use super::UdpSocket;
use super::address::Address;
use super::control::Control;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

/// Bytes of a buffer: more than any datagram, coalesced or not.
pub const DATAGRAM_BYTES_MAX: usize = 1 << 16;

/// The arrays and buffers of one `recvmmsg(2)`, allocated once.
///
/// Each array is a `Vec` that never grows. The pointers between them are made by `Vec::as_mut_ptr`, which makes no
/// reference to the elements: they stay valid while elements are borrowed, and when this is moved.
#[derive(Debug)]
pub struct Incoming {
    /// [`DATAGRAM_BYTES_MAX`] bytes for each message; pages never written take no memory.
    buffers: Vec<u8>,
    headers: Vec<libc::mmsghdr>,
    vectors: Vec<libc::iovec>,
    places: Vec<Place>,
    /// Messages of the last call.
    messages: usize,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    address: Address,
    control: Control,
}

// SAFETY: all pointers in it point to vectors of its own.
unsafe impl Send for Incoming {}

/// A received message: a datagram, or several of one flow that the kernel has coalesced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received<'a> {
    /// The message's bytes.
    pub bytes: &'a [u8],
    /// Bytes of each datagram but the last, which may be shorter; at least 1.
    pub segment_bytes: usize,
    /// The sender's address.
    pub from: Option<SocketAddr>,
    /// The destination address.
    pub to: Option<IpAddr>,
    /// The number of the receiving interface; 0 if it is not known.
    pub interface: u32,
    /// True if the message was longer than its buffer.
    pub is_cut_short: bool,
}

impl Incoming {
    /// Makes room for `messages` messages.
    pub fn new(messages: usize) -> Self {
        // SAFETY: `mmsghdr` is plain numbers and pointers, for which zero is valid.
        let header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        let vector = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: DATAGRAM_BYTES_MAX };
        let place = Place { address: Address::EMPTY, control: Control::EMPTY };
        let mut all = Self {
            buffers: vec![0; messages * DATAGRAM_BYTES_MAX],
            headers: vec![header; messages],
            vectors: vec![vector; messages],
            places: vec![place; messages],
            messages,
        };
        let (buffers, vectors) = (all.buffers.as_mut_ptr(), all.vectors.as_mut_ptr());
        let places = all.places.as_mut_ptr();
        for (at, (header, vector)) in all.headers.iter_mut().zip(all.vectors.iter_mut()).enumerate() {
            vector.iov_base = buffers.wrapping_add(at * DATAGRAM_BYTES_MAX).cast();
            header.msg_hdr.msg_iov = vectors.wrapping_add(at);
            header.msg_hdr.msg_iovlen = 1;
            let place = places.wrapping_add(at);
            header.msg_hdr.msg_name = place.wrapping_byte_add(std::mem::offset_of!(Place, address)).cast();
            header.msg_hdr.msg_control = place.wrapping_byte_add(std::mem::offset_of!(Place, control)).cast();
        }
        all
    }

    /// Receives messages without waiting, and returns their number. Those of the last call are gone.
    ///
    /// # Errors
    /// `EAGAIN` if there is none; an error that ICMP has reported of an earlier datagram, once.
    #[inline]
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        // The kernel has changed these in the last call.
        for header in &mut self.headers[..self.messages] {
            header.msg_hdr.msg_namelen = size_of::<Address>() as libc::socklen_t;
            header.msg_hdr.msg_controllen = size_of::<Control>() as _;
        }
        self.messages = 0;
        let (fd, headers, count) =
            (socket.fd().as_raw_fd(), self.headers.as_mut_ptr(), self.headers.len() as libc::c_uint);
        // SAFETY: so many headers, which `new` has pointed at places and buffers of their own, of the lengths that they
        // say. All are in vectors of `self`, which is borrowed mutably: there are no references to their elements.
        let received =
            unsafe { libc::recvmmsg(fd, headers, count, libc::MSG_DONTWAIT as _, std::ptr::null_mut()) };
        self.messages = crate::call::check(received)?.min(self.headers.len());
        Ok(self.messages)
    }

    /// Returns message `at` of the last call; `None` if there is none.
    #[inline]
    pub fn message(&self, at: usize) -> Option<Received<'_>> {
        let header = self.headers[..self.messages].get(at)?;
        let (place, buffer) = (self.places.get(at)?, self.buffers.chunks_exact(DATAGRAM_BYTES_MAX).nth(at)?);
        let info = place.control.read(header.msg_hdr.msg_controllen as _);
        let bytes = &buffer[..(header.msg_len as usize).min(buffer.len())];
        Some(Received {
            bytes,
            segment_bytes: info.segment_bytes.unwrap_or(bytes.len()).max(1),
            from: place.address.read(header.msg_hdr.msg_namelen as usize),
            to: info.to,
            interface: info.interface,
            is_cut_short: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        })
    }
}
