//! `Context`: an open device, its ports, and its asynchronous events.

use super::abi::{
    EVENT_CQ_ERR, EVENT_DEVICE_FATAL, EVENT_QP_ACCESS_ERR, EVENT_QP_FATAL, EVENT_QP_REQ_ERR, IbvAsyncEvent,
    IbvContext, IbvDeviceAttr, IbvGid, IbvPortAttr, LINK_LAYER_ETHERNET, PORT_ACTIVE,
};
use super::check_number;
use super::library::{DeviceList, Library};
use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use wharf_sys::call::check;

/// A global identifier of a port: 128 bits, an IPv6 address in form.
pub type Gid = [u8; 16];

/// An open device (`struct ibv_context`).
#[derive(Debug, Clone)]
pub struct Context(pub(super) Arc<Opened>);

#[derive(Debug)]
pub(super) struct Opened {
    pub(super) library: Library,
    pub(super) context: NonNull<IbvContext>,
}

// SAFETY: libibverbs allows calls of any thread on one context (rdma-core, Documentation/libibverbs.md, "Thread safety").
unsafe impl Send for Opened {}
// SAFETY: as above.
unsafe impl Sync for Opened {}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: the last owner: all objects made of the context hold a count of it, and have gone.
        unsafe { (self.library.0.close_device)(self.context.as_ptr()) };
    }
}

/// Bounds of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Requests that a work queue can hold.
    pub work_requests: u32,
    /// Entries that a completion queue can hold.
    pub completions: u32,
}

/// State of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortState {
    /// True if it sends and receives.
    pub is_active: bool,
    /// Bytes of the longest datagram.
    pub mtu_bytes: u32,
    /// Entries of its table of GIDs.
    pub gids: u32,
    /// True for Ethernet (RoCE), false for InfiniBand.
    pub is_ethernet: bool,
}

/// An asynchronous event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsyncEvent {
    /// The device does not work any more: removed, or failed.
    DeviceFatal,
    /// A queue pair or a completion queue of this context is in error.
    QueueError,
    /// Another event: a port has gone down or come up, or its addresses have changed.
    Other,
}

impl Context {
    /// Opens device `name`.
    ///
    /// # Errors
    /// `NotFound` if there is no such device; those of opening `/dev/infiniband/uverbsN`.
    pub fn open(library: Library, name: &str) -> io::Result<Self> {
        let list = DeviceList::new(library)?;
        let device = list.find(name).ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))?;
        // SAFETY: a device of a list that lives.
        let context = NonNull::new(unsafe { (library.0.open_device)(device) });
        let opened = Opened { library, context: context.ok_or_else(io::Error::last_os_error)? };
        set_nonblocking(opened.async_fd())?;
        Ok(Self(Arc::new(opened)))
    }

    /// Asks for the device's bounds.
    ///
    /// # Errors
    /// `EIO` if the device has gone.
    pub fn limits(&self) -> io::Result<DeviceLimits> {
        // SAFETY: numbers, of which all bits zero are a value.
        let mut attributes: IbvDeviceAttr = unsafe { std::mem::zeroed() };
        // SAFETY: an open device, and room for the answer.
        check_number(unsafe {
            (self.0.library.0.query_device)(self.0.context.as_ptr(), &raw mut attributes)
        })?;
        let number = |number: libc::c_int| u32::try_from(number).unwrap_or(0);
        Ok(DeviceLimits {
            work_requests: number(attributes.max_qp_wr),
            completions: number(attributes.max_cqe),
        })
    }

    /// Asks for the state of `port`, counted from 1.
    ///
    /// # Errors
    /// `EINVAL` if there is no such port, `EIO` if the device has gone.
    pub fn port(&self, port: u8) -> io::Result<PortState> {
        // SAFETY: numbers, of which all bits zero are a value.
        let mut attributes: IbvPortAttr = unsafe { std::mem::zeroed() };
        // SAFETY: an open device, and room for more than the library writes.
        check_number(unsafe {
            (self.0.library.0.query_port)(self.0.context.as_ptr(), port, &raw mut attributes)
        })?;
        Ok(PortState {
            is_active: attributes.state == PORT_ACTIVE,
            // `enum ibv_mtu`: 1 is 256 bytes, 5 is 4096.
            mtu_bytes: 128 << attributes.active_mtu.clamp(0, 5),
            gids: u32::try_from(attributes.gid_tbl_len).unwrap_or(0),
            is_ethernet: attributes.link_layer == LINK_LAYER_ETHERNET,
        })
    }

    /// Asks for entry `index` of the table of GIDs of `port`; all zeros if the entry is free.
    ///
    /// # Errors
    /// There is no such entry, or the device has gone.
    pub fn gid(&self, port: u8, index: u32) -> io::Result<Gid> {
        let mut gid = IbvGid { raw: [0; 16] };
        let index = libc::c_int::try_from(index).unwrap_or(libc::c_int::MAX);
        // SAFETY: an open device, and room for the answer.
        let failed =
            unsafe { (self.0.library.0.query_gid)(self.0.context.as_ptr(), port, index, &raw mut gid) };
        if failed == 0 { Ok(gid.raw) } else { Err(io::Error::last_os_error()) }
    }

    /// Returns the descriptor that is readable while there are asynchronous events.
    pub fn async_fd(&self) -> RawFd {
        self.0.async_fd()
    }

    /// Returns the next asynchronous event; `None` if there is none now. Does not wait.
    pub fn take_event(&self) -> Option<AsyncEvent> {
        // SAFETY: a pointer and a number, of which all bits zero are a value.
        let mut event: IbvAsyncEvent = unsafe { std::mem::zeroed() };
        // SAFETY: an open device, and room for the answer. The descriptor does not block. Each event is acknowledged once, at once:
        // nothing here keeps the object that it names.
        unsafe {
            if (self.0.library.0.get_async_event)(self.0.context.as_ptr(), &raw mut event) != 0 {
                return None;
            }
            (self.0.library.0.ack_async_event)(&raw mut event);
        }
        Some(match event.event_type {
            EVENT_DEVICE_FATAL => AsyncEvent::DeviceFatal,
            EVENT_CQ_ERR | EVENT_QP_FATAL | EVENT_QP_REQ_ERR | EVENT_QP_ACCESS_ERR => AsyncEvent::QueueError,
            _ => AsyncEvent::Other,
        })
    }
}

impl Opened {
    fn async_fd(&self) -> RawFd {
        // SAFETY: an open device, whose structure begins with these fields.
        unsafe { (*self.context.as_ptr()).async_fd }
    }
}

/// Makes reads of `fd` return at once.
pub(super) fn set_nonblocking(fd: RawFd) -> io::Result<()> {
    // SAFETY: plain calls on a descriptor that the library keeps open.
    unsafe {
        let flags = check(libc::fcntl(fd, libc::F_GETFL))? as libc::c_int;
        check(libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK)).map(drop)
    }
}
