//! `ProtectionDomain` and `MemoryRegion`: memory that a device may access.

use super::abi::{ACCESS_LOCAL_WRITE, IbvMr, IbvSge};
use super::context::Context;
use libc::c_void;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use wharf_sys::mapping::Mapping;

/// A protection domain (`struct ibv_pd`): queue pairs access memory of their own domain only.
#[derive(Debug, Clone)]
pub struct ProtectionDomain(pub(super) Arc<Domain>);

#[derive(Debug)]
pub(super) struct Domain {
    pub(super) context: Context,
    pub(super) pd: NonNull<c_void>,
}

// SAFETY: as for `Context`: the library's calls may come from any thread.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

impl ProtectionDomain {
    /// Makes one.
    ///
    /// # Errors
    /// `ENOMEM`, or `EIO` if the device has gone.
    pub fn new(context: &Context) -> io::Result<Self> {
        // SAFETY: an open device.
        let pd = unsafe { (context.0.library.0.alloc_pd)(context.0.context.as_ptr()) };
        let pd = NonNull::new(pd).ok_or_else(io::Error::last_os_error)?;
        Ok(Self(Arc::new(Domain { context: context.clone(), pd })))
    }

    /// True if both are the same.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: the last owner: what was made in the domain holds a count of it, and has gone.
        unsafe { (self.context.0.library.0.dealloc_pd)(self.pd.as_ptr()) };
    }
}

/// A mapping that is registered with a device (`struct ibv_mr`), pinned until this is dropped. It keeps the mapping, too.
pub struct MemoryRegion {
    mr: NonNull<IbvMr>,
    start: NonNull<u8>,
    len_bytes: usize,
    domain: ProtectionDomain,
    _memory: Arc<dyn AsRef<Mapping> + Send + Sync>,
}

// SAFETY: it hands out no reference to its memory; the library's calls may come from any thread.
unsafe impl Send for MemoryRegion {}
// SAFETY: as above.
unsafe impl Sync for MemoryRegion {}

impl std::fmt::Debug for MemoryRegion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemoryRegion({} bytes)", self.len_bytes)
    }
}

impl MemoryRegion {
    /// Registers all of `memory`, to be read by sends and written by receptions.
    ///
    /// # Errors
    /// `ENOMEM` beyond the memory that may be locked, `EIO` if the device has gone.
    pub fn register(
        domain: &ProtectionDomain, memory: Arc<dyn AsRef<Mapping> + Send + Sync>,
    ) -> io::Result<Self> {
        let mapping = (*memory).as_ref();
        let (start, len_bytes) = (mapping.start(), mapping.len_bytes());
        let reg_mr = domain.0.context.0.library.0.reg_mr;
        // SAFETY: a mapping of so many bytes, which outlives the registration: `_memory` keeps it.
        let mr =
            unsafe { reg_mr(domain.0.pd.as_ptr(), start.as_ptr().cast(), len_bytes, ACCESS_LOCAL_WRITE) };
        let mr = NonNull::new(mr).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { mr, start, len_bytes, domain: domain.clone(), _memory: memory })
    }

    /// Names `len` bytes from byte `at` on.
    ///
    /// # Panics
    /// If they are not inside.
    #[inline(always)]
    pub(super) fn part(&self, at: usize, len: u32) -> IbvSge {
        assert!(at.checked_add(len as usize).is_some_and(|end| end <= self.len_bytes), "byte {at} of memory");
        // SAFETY: a registration that lives, whose structure has this field.
        let lkey = unsafe { (*self.mr.as_ptr()).lkey };
        IbvSge { addr: (self.start.as_ptr() as usize + at) as u64, length: len, lkey }
    }

    /// True if it was registered in `domain`.
    pub(super) fn is_of(&self, domain: &ProtectionDomain) -> bool {
        self.domain.is(domain)
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // SAFETY: registered, and deregistered once. A device that still wrote to it would write to pages that the kernel keeps.
        unsafe { (self.domain.0.context.0.library.0.dereg_mr)(self.mr.as_ptr()) };
    }
}
