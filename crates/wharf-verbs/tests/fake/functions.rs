//! The functions of the library, as its binary interface has them: they work on the device of the context that they are given.

use super::super::abi::{
    IbvAhAttr, IbvAsyncEvent, IbvCompChannel, IbvContext, IbvContextOps, IbvCq, IbvDevice, IbvDeviceAttr,
    IbvGid, IbvMr, IbvPortAttr, IbvQp, IbvQpAttr, IbvQpInitAttr, IbvRecvWr, IbvSendWr, IbvWc,
    LINK_LAYER_ETHERNET, PORT_ACTIVE, SEND_INLINE, SEND_SIGNALED,
};
use super::super::library::Functions;
use super::list::{free_device_list, get_device_list, get_device_name, listed};
use super::{FakeDevice, INLINE_BYTES, QUEUE_PAIR, Sent, devices};
use libc::{c_int, c_uint, c_void};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::null_mut;

/// A context, as `ibv_open_device` returns it: the library's part comes first.
#[repr(C)]
struct Opened {
    context: IbvContext,
    device: FakeDevice,
    listed: IbvDevice,
    channel: IbvCompChannel,
    queues: [IbvCq; 2],
    made: usize,
    queue_pair: IbvQp,
    region: IbvMr,
}

impl Opened {
    /// Makes one whose objects do not point to their context yet.
    fn new(context: IbvContext, device: FakeDevice) -> Self {
        let fd = device.0.channel.as_fd().as_raw_fd();
        let channel = IbvCompChannel { context: null_mut(), fd, refcnt: 0 };
        let queue =
            || IbvCq { context: null_mut(), channel: null_mut(), cq_context: null_mut(), handle: 0, cqe: 0 };
        let queue_pair = IbvQp {
            context: null_mut(),
            qp_context: null_mut(),
            pd: null_mut(),
            send_cq: null_mut(),
            recv_cq: null_mut(),
            srq: null_mut(),
            handle: 0,
            qp_num: QUEUE_PAIR,
        };
        let region = IbvMr {
            context: null_mut(),
            pd: null_mut(),
            addr: null_mut(),
            length: 0,
            handle: 0,
            lkey: 7,
            rkey: 0,
        };
        let (listed, queues) = (listed(&device), [queue(), queue()]);
        Self { context, device, listed, channel, queues, made: 0, queue_pair, region }
    }
}

/// Returns the device that `context` is open on.
///
/// # Safety
/// `open_device` has returned it, and `close_device` has not taken it.
unsafe fn device_of<'a>(context: *mut IbvContext) -> &'a FakeDevice {
    // SAFETY: the caller's: the context is the first field of an `Opened`.
    unsafe { &(*context.cast::<Opened>()).device }
}

unsafe extern "C" fn open_device(device: *mut IbvDevice) -> *mut IbvContext {
    // SAFETY: a device of a list.
    let name = unsafe { (*device).name };
    let Some(device) = devices().iter().find(|known| known.0.name == name).cloned() else {
        return null_mut();
    };
    let ops = IbvContextOps {
        before_poll: [null_mut(); 11],
        poll_cq: Some(poll_cq),
        req_notify_cq: Some(req_notify_cq),
        between: [null_mut(); 12],
        post_send: Some(post_send),
        post_recv: Some(post_recv),
        behind: [null_mut(); 5],
    };
    let async_fd = device.0.events.as_fd().as_raw_fd();
    let context = IbvContext { device: null_mut(), ops, cmd_fd: -1, async_fd, num_comp_vectors: 1 };
    let opened = Box::into_raw(Box::new(Opened::new(context, device)));
    // SAFETY: just made, and not yet shared.
    unsafe {
        (*opened).context.device = &raw mut (*opened).listed;
        (*opened).channel.context = opened.cast();
        (*opened).queue_pair.context = opened.cast();
        (*opened).queues[0].context = opened.cast();
        (*opened).queues[1].context = opened.cast();
    }
    opened.cast()
}

unsafe extern "C" fn close_device(context: *mut IbvContext) -> c_int {
    // SAFETY: made by `open_device`, and closed once.
    drop(unsafe { Box::from_raw(context.cast::<Opened>()) });
    0
}

unsafe extern "C" fn query_device(_: *mut IbvContext, attributes: *mut IbvDeviceAttr) -> c_int {
    // SAFETY: the caller's structure.
    unsafe {
        ((*attributes).max_qp_wr, (*attributes).max_cqe, (*attributes).phys_port_cnt) = (4096, 8192, 1)
    };
    0
}

unsafe extern "C" fn query_port(context: *mut IbvContext, port: u8, attributes: *mut IbvPortAttr) -> c_int {
    // SAFETY: an open context, and the caller's structure.
    let (device, attributes) = unsafe { (device_of(context), &mut *attributes) };
    let state = device.0.state();
    if state.is_gone || port != 1 {
        return if state.is_gone { libc::EIO } else { libc::EINVAL };
    }
    attributes.state = if state.is_down { 1 } else { PORT_ACTIVE };
    (attributes.active_mtu, attributes.gid_tbl_len) = (state.mtu, 2);
    attributes.link_layer = if state.is_infiniband { 1 } else { LINK_LAYER_ETHERNET };
    0
}

unsafe extern "C" fn query_gid(context: *mut IbvContext, _: u8, index: c_int, gid: *mut IbvGid) -> c_int {
    // SAFETY: an open context, and the caller's structure.
    unsafe { (*gid).raw = if index == 0 { device_of(context).0.gid } else { [0; 16] } };
    0
}

unsafe extern "C" fn get_async_event(context: *mut IbvContext, event: *mut IbvAsyncEvent) -> c_int {
    // SAFETY: an open context.
    let device = unsafe { device_of(context) };
    device.0.events.clear();
    match device.0.state().events.pop_front() {
        Some(number) => {
            // SAFETY: the caller's structure.
            unsafe { (*event).event_type = number };
            0
        }
        None => -1,
    }
}

unsafe extern "C" fn ack_async_event(_: *mut IbvAsyncEvent) {}

unsafe extern "C" fn alloc_pd(context: *mut IbvContext) -> *mut c_void {
    context.cast()
}

unsafe extern "C" fn nothing(_: *mut c_void) -> c_int {
    0
}

unsafe extern "C" fn reg_mr(pd: *mut c_void, _: *mut c_void, _: usize, _: c_int) -> *mut IbvMr {
    // SAFETY: a domain of `alloc_pd` is its context, which is open.
    unsafe { &raw mut (*pd.cast::<Opened>()).region }
}

unsafe extern "C" fn dereg_mr(_: *mut IbvMr) -> c_int {
    0
}

unsafe extern "C" fn create_comp_channel(context: *mut IbvContext) -> *mut IbvCompChannel {
    // SAFETY: an open context.
    unsafe { &raw mut (*context.cast::<Opened>()).channel }
}

unsafe extern "C" fn destroy_comp_channel(_: *mut IbvCompChannel) -> c_int {
    0
}

unsafe extern "C" fn create_cq(
    context: *mut IbvContext, _: c_int, _: *mut c_void, _: *mut IbvCompChannel, _: c_int,
) -> *mut IbvCq {
    let opened: *mut Opened = context.cast();
    // SAFETY: an open context; the first queue made is that of sends, the second that of receptions.
    unsafe {
        let at = (*opened).made.min(1);
        (*opened).made += 1;
        (*opened).queues[at].handle = at as u32;
        &raw mut (*opened).queues[at]
    }
}

unsafe extern "C" fn destroy_cq(_: *mut IbvCq) -> c_int {
    0
}

unsafe extern "C" fn get_cq_event(
    channel: *mut IbvCompChannel, queue: *mut *mut IbvCq, _: *mut *mut c_void,
) -> c_int {
    // SAFETY: a channel of an open context.
    let opened: *mut Opened = unsafe { (*channel).context.cast() };
    // SAFETY: as above.
    let device = unsafe { device_of(opened.cast()) };
    device.0.channel.clear();
    match device.0.state().notifications.pop_front() {
        Some(at) => {
            // SAFETY: the caller's pointer, and a queue of the context.
            unsafe { *queue = (&raw mut (*opened).queues).cast::<IbvCq>().add(at) };
            0
        }
        None => -1,
    }
}

unsafe extern "C" fn ack_cq_events(_: *mut IbvCq, _: c_uint) {}

unsafe extern "C" fn create_qp(pd: *mut c_void, attributes: *mut IbvQpInitAttr) -> *mut IbvQp {
    // SAFETY: a domain of `alloc_pd` is its context, which is open; the caller's structure.
    unsafe {
        if (*attributes).cap.max_inline_data > INLINE_BYTES {
            // As a provider without so much inline data.
            *libc::__errno_location() = libc::EINVAL;
            return null_mut();
        }
        &raw mut (*pd.cast::<Opened>()).queue_pair
    }
}

unsafe extern "C" fn modify_qp(_: *mut IbvQp, _: *mut IbvQpAttr, _: c_int) -> c_int {
    0
}

unsafe extern "C" fn destroy_qp(queue_pair: *mut IbvQp) -> c_int {
    // SAFETY: a queue pair of an open context. It forgets its requests.
    let device = unsafe { device_of((*queue_pair).context) };
    let mut state = device.0.state();
    if state.keeps_queue_pair {
        return libc::EBUSY;
    }
    state.posted.clear();
    state.memory.clear();
    0
}

unsafe extern "C" fn create_ah(pd: *mut c_void, _: *mut IbvAhAttr) -> *mut c_void {
    // SAFETY: a domain of `alloc_pd` is its context, which is open.
    let device = unsafe { device_of(pd.cast()) };
    drop(device.0.neighbours.lock());
    let mut state = device.0.state();
    state.handles += 1;
    if !state.lacks_neighbours {
        return pd;
    }
    // SAFETY: this thread's number.
    unsafe { *libc::__errno_location() = libc::ETIMEDOUT };
    null_mut()
}

unsafe extern "C" fn poll_cq(queue: *mut IbvCq, room: c_int, to: *mut IbvWc) -> c_int {
    // SAFETY: a queue of an open context.
    let (device, is_reception) = unsafe { (device_of((*queue).context), (*queue).handle == 1) };
    let mut state = device.0.state();
    let beyond = state.polls_beyond;
    let completions = if is_reception { &mut state.received } else { &mut state.sent };
    let count = completions.len().min(usize::try_from(room).unwrap_or(0));
    for (at, wc) in completions.drain(..count).enumerate() {
        // SAFETY: the caller's room.
        unsafe { *to.add(at) = wc };
    }
    if beyond && count > 0 { room + 1000 } else { count as c_int }
}

unsafe extern "C" fn req_notify_cq(queue: *mut IbvCq, _: c_int) -> c_int {
    // SAFETY: a queue of an open context.
    let (device, at) = unsafe { (device_of((*queue).context), (*queue).handle as usize) };
    device.0.state().is_armed[at] = true;
    0
}

unsafe extern "C" fn post_send(
    queue_pair: *mut IbvQp, first: *mut IbvSendWr, bad: *mut *mut IbvSendWr,
) -> c_int {
    // SAFETY: a queue pair of an open context.
    let device = unsafe { device_of((*queue_pair).context) };
    let mut state = device.0.state();
    let list = || {
        std::iter::successors((!first.is_null()).then_some(first), |wr| {
            // SAFETY: a request of the caller's list.
            let next = unsafe { (**wr).next };
            (!next.is_null()).then_some(next)
        })
    };
    let (call, taken, errno) = device.call(&mut state, list().count());
    for (at, wr) in list().enumerate() {
        if at == taken {
            if !state.hides_refused {
                // SAFETY: the caller's pointer.
                unsafe { *bad = wr };
            }
            return errno;
        }
        // SAFETY: a request of the caller's, with one part of memory.
        let sent = unsafe {
            let part = &*(*wr).sg_list;
            let bytes = std::slice::from_raw_parts(part.addr as *const u8, part.length as usize).to_vec();
            let flags = (*wr).send_flags;
            let (is_signaled, is_inline) = (flags & SEND_SIGNALED != 0, flags & SEND_INLINE != 0);
            Sent { id: (*wr).wr_id, bytes, queue_pair: (*wr).remote_qpn, is_signaled, is_inline, call }
        };
        state.posted.push_back(sent);
    }
    0
}

unsafe extern "C" fn post_recv(
    queue_pair: *mut IbvQp, first: *mut IbvRecvWr, bad: *mut *mut IbvRecvWr,
) -> c_int {
    // SAFETY: a queue pair of an open context.
    let device = unsafe { device_of((*queue_pair).context) };
    let mut state = device.0.state();
    let mut wr = first;
    while !wr.is_null() {
        if state.is_gone {
            // SAFETY: the caller's pointer.
            unsafe { *bad = wr };
            return libc::EIO;
        }
        // SAFETY: a request of the caller's, with one part of memory.
        unsafe {
            let part = &*(*wr).sg_list;
            state.memory.push_back(((*wr).wr_id, part.addr as usize, part.length));
            wr = (*wr).next;
        }
    }
    0
}

pub(super) static FUNCTIONS: Functions = Functions {
    get_device_list,
    free_device_list,
    get_device_name,
    open_device,
    close_device,
    query_device,
    query_port,
    query_gid,
    get_async_event,
    ack_async_event,
    alloc_pd,
    dealloc_pd: nothing,
    reg_mr,
    dereg_mr,
    create_comp_channel,
    destroy_comp_channel,
    create_cq,
    destroy_cq,
    get_cq_event,
    ack_cq_events,
    create_qp,
    modify_qp,
    destroy_qp,
    create_ah,
    destroy_ah: nothing,
};
