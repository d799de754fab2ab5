//! `Outgoing`: the arrays of `sendmmsg(2)`, and `Writer`, which fills them for one call.

use super::UdpSocket;
use super::address::Address;
use super::control::Control;
use std::io::{self, IoSlice};
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

/// The addresses and segment size of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Message {
    /// The destination; `None` if the socket is connected.
    pub to: Option<SocketAddr>,
    /// The source address; `None` leaves it to the kernel.
    pub from: Option<IpAddr>,
    /// Bytes of the datagrams that the kernel segments it into (`UDP_SEGMENT`); `None` for one datagram.
    pub segment_bytes: Option<u16>,
}

/// The arrays of one `sendmmsg(2)`, allocated once.
///
/// Each array is a `Vec` that never grows. Pointers into it are made by `Vec::as_mut_ptr`, which makes no reference to
/// the elements: they stay valid while other elements are borrowed and written.
#[derive(Debug)]
pub struct Outgoing {
    pieces: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    places: Vec<Place>,
    /// Room for joined pieces.
    joined: Vec<u8>,
}

/// The data that a header points to, and the message and pieces that it was written from.
#[derive(Debug, Clone, Copy)]
struct Place {
    address: Address,
    control: Control,
    message: Message,
    /// The message's pieces: the first, and the one behind the last.
    pieces: (usize, usize),
}

// SAFETY: the pointers in `pieces` and `headers` are written by a `Writer` and read only while it lives; it borrows all
// that they point to. They are not read afterwards, in any thread.
unsafe impl Send for Outgoing {}

impl Outgoing {
    /// Makes room for `messages` messages of `pieces` pieces in all, and for `joined_bytes` of joined pieces
    /// ([`Writer::join`]).
    pub fn new(messages: usize, pieces: usize, joined_bytes: usize) -> Self {
        let message = Message::default();
        let place = Place { address: Address::EMPTY, control: Control::EMPTY, message, pieces: (0, 0) };
        let piece = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: `mmsghdr` is plain numbers and pointers, for which zero is valid.
        let header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        Self {
            pieces: vec![piece; pieces],
            headers: vec![header; messages],
            places: vec![place; messages],
            joined: vec![0; joined_bytes],
        }
    }

    /// Begins a call without messages.
    #[inline]
    pub fn begin<'b>(&mut self) -> Writer<'_, 'b> {
        Writer { all: self, pieces: 0, first: 0, messages: 0, joined: 0, bytes: PhantomData }
    }
}

/// The messages of one call. It borrows the bytes that they carry.
#[derive(Debug)]
pub struct Writer<'m, 'b> {
    all: &'m mut Outgoing,
    /// Number of pieces written, and the first of the unfinished message.
    pieces: usize,
    first: usize,
    messages: usize,
    /// Bytes of joined pieces.
    joined: usize,
    bytes: PhantomData<&'b [u8]>,
}

/// A message that was written.
#[derive(Debug, Clone, Copy)]
pub struct WrittenMessage<'a> {
    /// Its bytes, piece by piece.
    pub pieces: &'a [IoSlice<'a>],
    /// Its addresses and segment size.
    pub message: Message,
}

impl<'b> Writer<'_, 'b> {
    /// Returns the number of further pieces that fit.
    #[inline]
    pub fn room_pieces(&self) -> usize {
        self.all.pieces.len() - self.pieces
    }

    /// Returns the number of further messages that fit.
    #[inline]
    pub fn room_messages(&self) -> usize {
        self.all.headers.len() - self.messages
    }

    /// Returns the number of messages written.
    #[inline]
    pub fn len(&self) -> usize {
        self.messages
    }

    /// True if no message was written.
    pub fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Appends a piece to the unfinished message, and returns true if there was room.
    #[inline]
    pub fn piece(&mut self, bytes: &'b [u8]) -> bool {
        let Some(place) = self.all.pieces.get_mut(self.pieces) else { return false };
        *place = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        self.pieces += 1;
        true
    }

    /// Copies the pieces of the unfinished message together, as one piece, and returns true if there was room for that.
    #[inline]
    pub fn join(&mut self) -> bool {
        let Outgoing { pieces, joined, .. } = &mut *self.all;
        let unfinished = &mut pieces[self.first..self.pieces];
        let bytes = unfinished.iter().map(|piece| piece.iov_len).sum::<usize>();
        if joined.len() - self.joined < bytes {
            return false;
        }
        let start = joined.as_mut_ptr().wrapping_add(self.joined);
        let mut to = start;
        for piece in &*unfinished {
            // SAFETY: `piece` has pointed it at so many bytes, which are borrowed as long as this writer lives; or this function
            // has, at bytes of `joined` before `start`. All pointers into `joined` come from `as_mut_ptr`, and no
            // reference to its bytes is made while they are in use. `to` has room for the sum of all lengths.
            unsafe { std::ptr::copy_nonoverlapping(piece.iov_base.cast::<u8>(), to, piece.iov_len) };
            to = to.wrapping_add(piece.iov_len);
        }
        if let Some(first) = unfinished.first_mut() {
            *first = libc::iovec { iov_base: start.cast(), iov_len: bytes };
            (self.pieces, self.joined) = (self.first + 1, self.joined + bytes);
        }
        true
    }

    /// Ends the unfinished message, which is sent as `message` says, and returns true if there was room for one.
    #[inline]
    pub fn message(&mut self, message: &Message) -> bool {
        let Outgoing { pieces, headers, places, .. } = &mut *self.all;
        let place_at = places.as_mut_ptr().wrapping_add(self.messages);
        let (Some(header), Some(place)) = (headers.get_mut(self.messages), places.get_mut(self.messages))
        else {
            return false;
        };
        (place.message, place.pieces) = (*message, (self.first, self.pieces));
        let header = &mut header.msg_hdr;
        let address_bytes = message.to.as_ref().map_or(0, |to| place.address.write(to));
        (header.msg_name, header.msg_namelen) = if address_bytes > 0 {
            let address = place_at.wrapping_byte_add(std::mem::offset_of!(Place, address));
            (address.cast(), address_bytes as libc::socklen_t)
        } else {
            (std::ptr::null_mut(), 0)
        };
        let mut control_bytes = message.segment_bytes.map_or(0, |bytes| place.control.push_segment(0, bytes));
        if let Some(source) = message.from {
            control_bytes = place.control.push_source(control_bytes, source);
        }
        header.msg_control = place_at.wrapping_byte_add(std::mem::offset_of!(Place, control)).cast();
        header.msg_controllen = control_bytes as _;
        header.msg_iov = pieces.as_mut_ptr().wrapping_add(self.first);
        header.msg_iovlen = (self.pieces - self.first) as _;
        (self.first, self.messages) = (self.pieces, self.messages + 1);
        true
    }

    /// Returns message `at`, for a stand-in of the kernel.
    ///
    /// # Panics
    /// When there is no such message.
    pub fn written(&self, at: usize) -> WrittenMessage<'_> {
        assert!(at < self.messages, "message {at} of {}", self.messages);
        let place = &self.all.places[at];
        let pieces = &self.all.pieces[place.pieces.0..place.pieces.1];
        // SAFETY: each piece is of bytes that are borrowed as long as this writer lives, or of `joined`, which is not written
        // while `self` is borrowed. `IoSlice` has the layout of `iovec`.
        let pieces = unsafe { std::slice::from_raw_parts(pieces.as_ptr().cast(), pieces.len()) };
        WrittenMessage { pieces, message: place.message }
    }

    /// Sends all messages, without waiting, and returns the number that the kernel took, the first ones. The
    /// next call reports why it took no more.
    ///
    /// # Errors
    /// The reason why it did not take the first one: `sendmsg(2)`, `udp(7)`.
    #[inline]
    pub fn send(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        let fd = socket.fd().as_raw_fd();
        let (headers, count) = (self.all.headers.as_mut_ptr(), self.messages as libc::c_uint);
        // musl's `sendmmsg` calls `sendmsg` in a loop. Its `mmsghdr` has the kernel's layout, with zeroes as padding.
        // SAFETY: so many headers were written by `message`. They point to addresses and control messages of
        // this borrow, and to pieces of bytes that are borrowed as long as this writer lives.
        let sent = unsafe { libc::syscall(libc::SYS_sendmmsg, fd, headers, count, libc::MSG_DONTWAIT) };
        crate::call::check(sent)
    }
}
