//! `CompletionChannel` and `CompletionQueue`: the ends of requests, and notifications of them.

use super::abi::{IbvCompChannel, IbvCq, IbvWc, WC_GRH};
use super::check_number;
use super::context::{Context, set_nonblocking};
use std::io;
use std::os::fd::RawFd;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

/// Completions fetched in one call.
const FETCHED: usize = 32;

/// Status of a request that has ended (`enum ibv_wc_status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It was done.
    Success,
    /// The queue pair is in error, and gives its requests back (`IBV_WC_WR_FLUSH_ERR`).
    Flushed,
    /// It failed, with the library's number.
    Failed(i32),
}

impl Status {
    fn of(number: libc::c_int) -> Self {
        match number {
            0 => Self::Success,
            5 => Self::Flushed,
            number => Self::Failed(number),
        }
    }

    /// Returns the library's name of the status, without `IBV_WC_`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "SUCCESS",
            Self::Flushed => "WR_FLUSH_ERR",
            Self::Failed(1) => "LOC_LEN_ERR",
            Self::Failed(2) => "LOC_QP_OP_ERR",
            Self::Failed(4) => "LOC_PROT_ERR",
            Self::Failed(8) => "LOC_ACCESS_ERR",
            Self::Failed(19) => "FATAL_ERR",
            Self::Failed(21) => "GENERAL_ERR",
            Self::Failed(_) => "another error",
        }
    }
}

/// The end of a request (`struct ibv_wc`), as the device says: none of it is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The number that the request was posted with.
    pub id: u64,
    /// Status.
    pub status: Status,
    /// Bytes received, with the global route header.
    pub len_bytes: u32,
    /// Queue pair that has sent the datagram.
    pub source_queue_pair: u32,
    /// True if a global route header precedes the datagram.
    pub has_route_header: bool,
}

/// A channel of notifications (`struct ibv_comp_channel`).
#[derive(Debug, Clone)]
pub struct CompletionChannel(Arc<Channel>);

#[derive(Debug)]
struct Channel {
    context: Context,
    channel: NonNull<IbvCompChannel>,
}

// SAFETY: as for `Context`: the library's calls may come from any thread.
unsafe impl Send for Channel {}
// SAFETY: as above.
unsafe impl Sync for Channel {}

impl CompletionChannel {
    /// Makes one, whose reads do not wait.
    ///
    /// # Errors
    /// `EMFILE`, or `EIO` if the device has gone.
    pub fn new(context: &Context) -> io::Result<Self> {
        // SAFETY: an open device.
        let channel = unsafe { (context.0.library.0.create_comp_channel)(context.0.context.as_ptr()) };
        let channel = NonNull::new(channel).ok_or_else(io::Error::last_os_error)?;
        let made = Self(Arc::new(Channel { context: context.clone(), channel }));
        set_nonblocking(made.fd())?;
        Ok(made)
    }

    /// Returns the descriptor that is readable while there are notifications.
    pub fn fd(&self) -> RawFd {
        // SAFETY: a channel that lives, whose structure has this field.
        unsafe { (*self.0.channel.as_ptr()).fd }
    }

    /// Takes all notifications, acknowledges them, and returns their number.
    pub fn take_events(&self) -> u64 {
        let functions = self.0.context.0.library.0;
        let (mut queue, mut context, mut taken): (*mut IbvCq, _, _) = (null_mut(), null_mut(), 0);
        // SAFETY: a channel that lives, and room for the answers. The descriptor does not block. An event names a queue of this
        // channel: the library takes a queue's events out of the channel when the queue is destroyed.
        unsafe {
            while (functions.get_cq_event)(self.0.channel.as_ptr(), &raw mut queue, &raw mut context) == 0 {
                (functions.ack_cq_events)(queue, 1);
                taken += 1;
            }
        }
        taken
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: the last owner: queues of the channel hold a count of it, and have gone.
        unsafe { (self.context.0.library.0.destroy_comp_channel)(self.channel.as_ptr()) };
    }
}

/// A completion queue (`struct ibv_cq`).
#[derive(Debug, Clone)]
pub struct CompletionQueue(pub(super) Arc<Queue>);

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) cq: NonNull<IbvCq>,
    channel: CompletionChannel,
}

// SAFETY: as for `Context`: the library's calls may come from any thread.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl CompletionQueue {
    /// Makes one of `entries` at least, which notifies by `channel`.
    ///
    /// # Errors
    /// `EINVAL` for more entries than the device has, `ENOMEM`, or `EIO` if the device has gone.
    pub fn new(channel: &CompletionChannel, entries: u32) -> io::Result<Self> {
        let entries = libc::c_int::try_from(entries).unwrap_or(libc::c_int::MAX);
        let Channel { context, channel: raw } = &*channel.0;
        let create = context.0.library.0.create_cq;
        // SAFETY: an open device, and a channel of it; no context pointer, and the first vector, which each device has.
        let cq = unsafe { create(context.0.context.as_ptr(), entries, null_mut(), raw.as_ptr(), 0) };
        let cq = NonNull::new(cq).ok_or_else(io::Error::last_os_error)?;
        Ok(Self(Arc::new(Queue { cq, channel: channel.clone() })))
    }

    /// Asks for a notification of the next completion (`ibv_req_notify_cq`). Completions that are in the queue already notify of
    /// nothing: the caller polls again behind this call.
    ///
    /// # Errors
    /// The device has gone.
    pub fn arm(&self) -> io::Result<()> {
        let context = self.0.channel.0.context.0.context.as_ptr();
        // SAFETY: a device that is open, with the calls that its provider has set; a queue of it.
        let armed = unsafe {
            match (*context).ops.req_notify_cq {
                Some(request) => request(self.0.cq.as_ptr(), 0),
                None => libc::ENOSYS,
            }
        };
        check_number(armed)
    }

    /// Takes up to `budget` completions, and shows each to `see`. Returns their number.
    ///
    /// # Errors
    /// The queue is in error: no completion will come any more.
    #[inline]
    pub fn poll(&self, budget: usize, mut see: impl FnMut(Completion)) -> io::Result<usize> {
        let context = self.0.channel.0.context.0.context.as_ptr();
        let mut fetched = [IbvWc::default(); FETCHED];
        let mut taken = 0;
        while taken < budget {
            let room = (budget - taken).min(FETCHED);
            // SAFETY: a device that is open, with the calls that its provider has set; a queue of it, and room for as many entries as are
            // asked for.
            let count = unsafe {
                match (*context).ops.poll_cq {
                    Some(poll) => poll(self.0.cq.as_ptr(), room as libc::c_int, fetched.as_mut_ptr()),
                    None => -1,
                }
            };
            let count = usize::try_from(count).map_err(|_| io::Error::from_raw_os_error(libc::EIO))?;
            // No more than there was room for, whatever the device says.
            let count = count.min(room);
            fetched[..count].iter().for_each(|wc| see(Completion::of(wc)));
            taken += count;
            if count < room {
                break;
            }
        }
        Ok(taken)
    }
}

impl Completion {
    #[inline]
    fn of(wc: &IbvWc) -> Self {
        Self {
            id: wc.wr_id,
            status: Status::of(wc.status),
            len_bytes: wc.byte_len,
            source_queue_pair: wc.src_qp,
            has_route_header: wc.wc_flags & WC_GRH != 0,
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Each event is acknowledged as it is taken: the library waits for none.
        // SAFETY: the last owner: queue pairs hold a count of it, and have gone.
        unsafe { (self.channel.0.context.0.library.0.destroy_cq)(self.cq.as_ptr()) };
    }
}
