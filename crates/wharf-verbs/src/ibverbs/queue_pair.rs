//! `QueuePair`: a queue pair of unreliable datagrams (UD), and `AddressHandle`: a way to a port.

use super::abi::{
    IbvAhAttr, IbvQp, IbvQpAttr, IbvQpCap, IbvQpInitAttr, IbvRecvWr, IbvSendWr, IbvSge, QP_PKEY_INDEX,
    QP_PORT, QP_QKEY, QP_SQ_PSN, QP_STATE, QPS_INIT, QPS_RTR, QPS_RTS, QPT_UD, SEND_INLINE, SEND_SIGNALED,
    WR_SEND,
};
use super::check_number;
use super::completion::CompletionQueue;
use super::context::Gid;
use super::memory::{MemoryRegion, ProtectionDomain};
use libc::{c_int, c_void};
use std::io;
use std::ptr::{NonNull, null_mut};

/// A way to a port (`struct ibv_ah`).
#[derive(Debug)]
pub struct AddressHandle {
    ah: NonNull<c_void>,
    domain: ProtectionDomain,
}

// SAFETY: as for `Context`: the library's calls may come from any thread.
unsafe impl Send for AddressHandle {}
// SAFETY: as above.
unsafe impl Sync for AddressHandle {}

impl AddressHandle {
    /// Makes one from entry `gid_index` of the GIDs of `port` to the port with `gid`. On RoCE the provider asks the kernel for the
    /// neighbour's Ethernet address, and waits up to some seconds while the kernel does not know it.
    ///
    /// # Errors
    /// `ETIMEDOUT`, `EHOSTUNREACH` and the like if the neighbour does not answer; `EINVAL` for no GID.
    pub fn new(domain: &ProtectionDomain, port: u8, gid_index: u8, gid: &Gid) -> io::Result<Self> {
        // SAFETY: numbers, of which all bits zero are a value.
        let mut attributes: IbvAhAttr = unsafe { std::mem::zeroed() };
        attributes.dgid.raw = *gid;
        (attributes.is_global, attributes.sgid_index, attributes.port_num) = (1, gid_index, port);
        // As for IP packets.
        attributes.hop_limit = 64;
        // SAFETY: a domain that lives, and attributes that the call reads.
        let ah =
            unsafe { (domain.0.context.0.library.0.create_ah)(domain.0.pd.as_ptr(), &raw mut attributes) };
        let ah = NonNull::new(ah).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { ah, domain: domain.clone() })
    }
}

impl Drop for AddressHandle {
    fn drop(&mut self) {
        // SAFETY: made by the library, and destroyed once.
        unsafe { (self.domain.0.context.0.library.0.destroy_ah)(self.ah.as_ptr()) };
    }
}

/// Settings of a [`QueuePair`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePairOptions {
    /// Port, counted from 1.
    pub port: u8,
    /// Requests of its send queue and of its receive queue.
    pub sends: u32,
    /// Requests of its receive queue: 0 for a queue pair that only sends.
    pub receives: u32,
    /// Bytes of a datagram that the processor copies into the request itself.
    pub inline_bytes: u32,
    /// Key that datagrams must carry to be received (Q_Key).
    pub key: u32,
}

/// A datagram to be sent.
#[derive(Debug, Clone, Copy)]
pub struct SendRequest<'a> {
    /// Number of its completion.
    pub id: u64,
    /// Place of its bytes in the memory region, and their number.
    pub at: usize,
    /// Number of its bytes.
    pub len_bytes: u32,
    /// Way to the receiver's port.
    pub address: &'a AddressHandle,
    /// The receiver's queue pair.
    pub queue_pair: u32,
    /// True if its completion is reported even if it succeeds.
    pub is_signaled: bool,
    /// True if the processor copies it.
    pub is_inline: bool,
}

/// Memory for a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveRequest {
    /// Number of its completion.
    pub id: u64,
    /// Place in the memory region.
    pub at: usize,
    /// Number of bytes.
    pub len_bytes: u32,
}

/// Result of a post that the device has not taken whole.
#[derive(Debug)]
pub struct PostError {
    /// Requests that it has taken: the first of those given; all of them if it does not say.
    pub taken: usize,
    /// Its answer.
    pub source: io::Error,
}

/// A queue pair of unreliable datagrams (`struct ibv_qp`), ready to send and to receive.
pub struct QueuePair {
    qp: NonNull<IbvQp>,
    domain: ProtectionDomain,
    _queues: [CompletionQueue; 2],
    inline_bytes: u32,
    key: u32,
    is_destroyed: bool,
    sends: Requests<IbvSendWr>,
    receives: Requests<IbvRecvWr>,
}

// SAFETY: the pointers among the requests under construction are set anew in each call; the library's calls may come from any thread.
unsafe impl Send for QueuePair {}

impl std::fmt::Debug for QueuePair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "QueuePair({})", self.number())
    }
}

impl QueuePair {
    /// Makes one whose sends complete in `sent` and whose receptions complete in `received`, and brings it from RESET to RTS. It takes
    /// `options.inline_bytes` inline, or a half or a quarter of that, or none, as the device offers.
    ///
    /// # Errors
    /// `EINVAL` or `ENOMEM` beyond the device's bounds, `EIO` if the device has gone.
    pub fn new(
        domain: &ProtectionDomain, sent: &CompletionQueue, received: &CompletionQueue,
        options: &QueuePairOptions,
    ) -> io::Result<Self> {
        let create = |inline_bytes| create(domain, sent, received, options, inline_bytes);
        // A device that takes fewer bytes inline refuses, and does not say how many it would take.
        let halves = std::iter::successors(Some(options.inline_bytes), |bytes| Some(bytes / 2));
        let inlined =
            halves.take_while(|bytes| *bytes >= INLINE_BYTES_MIN).find_map(|bytes| create(bytes).ok());
        let (qp, inline_bytes) = inlined.map_or_else(|| create(0), Ok)?;
        let made = Self {
            qp,
            domain: domain.clone(),
            _queues: [sent.clone(), received.clone()],
            inline_bytes,
            key: options.key,
            is_destroyed: false,
            sends: Requests::new(NO_SEND, options.sends),
            receives: Requests::new(NO_RECEIVE, options.receives),
        };
        let steps = [(QPS_INIT, QP_PKEY_INDEX | QP_PORT | QP_QKEY), (QPS_RTR, 0), (QPS_RTS, QP_SQ_PSN)];
        steps.into_iter().try_for_each(|(state, mask)| made.modify(state, mask, options.port))?;
        Ok(made)
    }

    fn modify(&self, state: c_int, mask: c_int, port: u8) -> io::Result<()> {
        // SAFETY: numbers, of which all bits zero are a value: the first partition key, and packet numbers from 0 on.
        let mut attributes: IbvQpAttr = unsafe { std::mem::zeroed() };
        (attributes.qp_state, attributes.port_num, attributes.qkey) = (state, port, self.key);
        let modify = self.domain.0.context.0.library.0.modify_qp;
        // SAFETY: a queue pair that lives, and attributes that the call reads.
        check_number(unsafe { modify(self.qp.as_ptr(), &raw mut attributes, QP_STATE | mask) })
    }

    /// Destroys it. Behind this call the device accesses no memory for it.
    ///
    /// # Errors
    /// The library's: the device may go on. The queue pair then stays, with its queues and its context, until the process ends.
    pub fn destroy(mut self) -> io::Result<()> {
        // SAFETY: made by the library, and destroyed once: `drop` is told so, or does not run.
        match check_number(unsafe { (self.domain.0.context.0.library.0.destroy_qp)(self.qp.as_ptr()) }) {
            Ok(()) => {
                self.is_destroyed = true;
                Ok(())
            }
            Err(error) => {
                std::mem::forget(self);
                Err(error)
            }
        }
    }

    /// Returns its number, by which peers address it.
    pub fn number(&self) -> u32 {
        // SAFETY: a queue pair that lives, whose structure has this field.
        unsafe { (*self.qp.as_ptr()).qp_num }
    }

    /// Returns the number of bytes that it takes inline, at most.
    pub fn inline_bytes(&self) -> u32 {
        self.inline_bytes
    }

    /// Posts `requests` with bytes in `memory`, linked, in one call. Returns their number: as many as the send queue holds, at most.
    ///
    /// # Errors
    /// The device takes a first part of them only.
    ///
    /// # Panics
    /// If `memory` or an address handle is of another protection domain.
    #[inline]
    pub fn post_sends<'a>(
        &mut self, memory: &MemoryRegion, requests: impl Iterator<Item = SendRequest<'a>>,
    ) -> Result<usize, PostError> {
        assert!(memory.is_of(&self.domain), "memory of another protection domain");
        let (domain, key, inline_bytes) = (&self.domain, self.key, self.inline_bytes);
        let count = self.sends.fill(requests, |wr, request| {
            assert!(request.address.domain.is(domain), "address of another protection domain");
            let is_inline = request.is_inline && request.len_bytes <= inline_bytes;
            let signaled = if request.is_signaled { SEND_SIGNALED } else { 0 };
            wr.wr_id = request.id;
            wr.send_flags = signaled | if is_inline { SEND_INLINE } else { 0 };
            (wr.ah, wr.remote_qpn, wr.remote_qkey) = (request.address.ah.as_ptr(), request.queue_pair, key);
            memory.part(request.at, request.len_bytes)
        });
        let Some(first) = self.sends.list(count) else { return Ok(0) };
        let context = self.domain.0.context.0.context.as_ptr();
        let mut bad: *mut IbvSendWr = null_mut();
        // SAFETY: a device that is open, with the calls that its provider has set; a queue pair of it; a list of requests that ends
        // with null, each with one part of memory that is registered in the same domain, and address handles that live as long as
        // `requests`, which outlives the call. Inline data are bytes of the mapping.
        let posted = unsafe {
            match (*context).ops.post_send {
                Some(post) => post(self.qp.as_ptr(), first, &raw mut bad),
                None => libc::ENOSYS,
            }
        };
        self.sends.result(posted, count, bad)
    }

    /// Posts `requests` for memory in `memory`, linked, in one call. Returns their number: as many as the receive queue holds, at most.
    ///
    /// # Errors
    /// The device takes a first part of them only.
    ///
    /// # Panics
    /// If `memory` is of another protection domain.
    #[inline]
    pub fn post_receives(
        &mut self, memory: &MemoryRegion, requests: impl Iterator<Item = ReceiveRequest>,
    ) -> Result<usize, PostError> {
        assert!(memory.is_of(&self.domain), "memory of another protection domain");
        let count = self.receives.fill(requests, |wr, request| {
            wr.wr_id = request.id;
            memory.part(request.at, request.len_bytes)
        });
        let Some(first) = self.receives.list(count) else { return Ok(0) };
        let context = self.domain.0.context.0.context.as_ptr();
        let mut bad: *mut IbvRecvWr = null_mut();
        // SAFETY: as for sends.
        let posted = unsafe {
            match (*context).ops.post_recv {
                Some(post) => post(self.qp.as_ptr(), first, &raw mut bad),
                None => libc::ENOSYS,
            }
        };
        self.receives.result(posted, count, bad)
    }
}

fn create(
    domain: &ProtectionDomain, sent: &CompletionQueue, received: &CompletionQueue,
    options: &QueuePairOptions, inline_bytes: u32,
) -> io::Result<(NonNull<IbvQp>, u32)> {
    let mut attributes = IbvQpInitAttr {
        qp_context: null_mut(),
        send_cq: sent.0.cq.as_ptr(),
        recv_cq: received.0.cq.as_ptr(),
        srq: null_mut(),
        cap: IbvQpCap {
            max_send_wr: options.sends,
            // A few devices refuse a queue pair that cannot receive.
            max_recv_wr: options.receives.max(1),
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: inline_bytes,
        },
        qp_type: QPT_UD,
        sq_sig_all: 0,
    };
    // SAFETY: a domain that lives, queues of the same device, and attributes that the call reads and writes.
    let qp = unsafe { (domain.0.context.0.library.0.create_qp)(domain.0.pd.as_ptr(), &raw mut attributes) };
    let qp = NonNull::new(qp).ok_or_else(io::Error::last_os_error)?;
    // A provider may offer more than was asked for.
    Ok((qp, attributes.cap.max_inline_data.min(inline_bytes)))
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        if !self.is_destroyed {
            // SAFETY: made by the library, and destroyed once.
            unsafe { (self.domain.0.context.0.library.0.destroy_qp)(self.qp.as_ptr()) };
        }
    }
}

/// Requests under construction, each with one part of memory: as many as a queue holds.
struct Requests<W> {
    requests: Box<[W]>,
    parts: Box<[IbvSge]>,
}

/// A request that is linked to the next one.
trait Linked: Copy {
    fn link(&mut self, next: *mut Self, part: *mut IbvSge);
}

impl Linked for IbvSendWr {
    #[inline(always)]
    fn link(&mut self, next: *mut Self, part: *mut IbvSge) {
        (self.next, self.sg_list) = (next, part);
    }
}

impl Linked for IbvRecvWr {
    #[inline(always)]
    fn link(&mut self, next: *mut Self, part: *mut IbvSge) {
        (self.next, self.sg_list) = (next, part);
    }
}

impl<W: Linked> Requests<W> {
    fn new(empty: W, count: u32) -> Self {
        let count = count as usize;
        Self { requests: vec![empty; count].into(), parts: vec![IbvSge::default(); count].into() }
    }

    /// Fills in the first ones, one for each of `from`, by `fill`, which returns the part of memory. Returns their number.
    #[inline(always)]
    fn fill<R>(&mut self, from: impl Iterator<Item = R>, mut fill: impl FnMut(&mut W, R) -> IbvSge) -> usize {
        let mut count = 0;
        for ((wr, part), request) in self.requests.iter_mut().zip(&mut self.parts).zip(from) {
            *part = fill(wr, request);
            count += 1;
        }
        count
    }

    /// Links the first `count`, and returns the first, unless there is none.
    #[inline(always)]
    fn list(&mut self, count: usize) -> Option<*mut W> {
        let (first, parts) = (self.requests.as_mut_ptr(), self.parts.as_mut_ptr());
        for at in 0..count.min(self.requests.len()) {
            let next = if at + 1 < count { first.wrapping_add(at + 1) } else { null_mut() };
            // SAFETY: inside of the slice, by the bound of the loop; there is no other reference to it.
            unsafe { (*first.add(at)).link(next, parts.wrapping_add(at)) };
        }
        (count > 0).then_some(first)
    }

    /// Returns the result of a post of `count` requests, of which the device names the first that it has not taken.
    #[inline(always)]
    fn result(&self, posted: c_int, count: usize, bad: *mut W) -> Result<usize, PostError> {
        check_number(posted).map(|()| count).map_err(|source| {
            // A pointer to something else says nothing: the device may access any of them until the queue pair is destroyed.
            let taken = self.requests[..count].iter().position(|wr| std::ptr::eq(wr, bad)).unwrap_or(count);
            PostError { taken, source }
        })
    }
}

/// Fewer bytes inline are not worth it.
const INLINE_BYTES_MIN: u32 = 32;

const NO_SEND: IbvSendWr = IbvSendWr {
    wr_id: 0,
    next: null_mut(),
    sg_list: null_mut(),
    num_sge: 1,
    opcode: WR_SEND,
    send_flags: 0,
    imm_data: 0,
    ah: null_mut(),
    remote_qpn: 0,
    remote_qkey: 0,
    rest: [0; 9],
};
const NO_RECEIVE: IbvRecvWr = IbvRecvWr { wr_id: 0, next: null_mut(), sg_list: null_mut(), num_sge: 1 };
