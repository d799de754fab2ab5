//! `Mapping`: a shared, sealed memory mapping, which holds a pool's region.

pub use crate::call::PAGE_BYTES;
use crate::call::Pages;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

/// Bytes of a huge page (`MFD_HUGE_2MB`).
pub const HUGE_PAGE_BYTES: usize = 2 << 20;
/// NUMA nodes of a machine, at most (`MAX_NUMNODES`).
const NODES_MAX: u32 = 1024;
/// Pages that are there already move to where the new policy wants them (`MPOL_MF_MOVE`).
const MOVE: libc::c_uint = 1 << 1;

/// Memory that other processes and devices can share: a memfd, mapped read-write and sealed against
/// truncation.
///
/// A peer that could truncate the file would turn an access here into `SIGBUS`; the seal prevents that.
///
/// A limit on the size of files (`RLIMIT_FSIZE`, `ulimit -f`) holds for a memfd, too. Memory beyond it is
/// mapped without a file: it is the same, but no other process can map it.
#[derive(Debug)]
pub struct Mapping {
    pages: Pages,
    page_bytes: usize,
    /// `None` where the limit forbids a file.
    fd: Option<OwnedFd>,
}

impl Mapping {
    /// Maps `len_bytes`, rounded up to whole pages: 2 MiB huge pages if enough are free, and a control group
    /// permits them, otherwise 4 KiB pages.
    ///
    /// # Errors
    /// Those of `memfd_create(2)`, `ftruncate(2)`, `fcntl(2)` and `mmap(2)` for the 4 KiB pages. A lack of
    /// huge pages is no error.
    pub fn shared(len_bytes: usize) -> io::Result<Self> {
        let huge = Self::with_pages(len_bytes, HUGE_PAGE_BYTES, MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB);
        // The limit of a control group counts pages when they are touched first, and by `SIGBUS`.
        match huge.and_then(|mapping| mapping.pages.populate().map(|()| mapping)) {
            Ok(mapping) => Ok(mapping),
            Err(_) => Self::shared_small_pages(len_bytes),
        }
    }

    /// Does as [`Mapping::shared`] on 4 KiB pages, even if huge pages are free.
    ///
    /// # Errors
    /// Those of [`Mapping::shared`].
    pub fn shared_small_pages(len_bytes: usize) -> io::Result<Self> {
        Self::with_pages(len_bytes, PAGE_BYTES, MemfdFlags::empty())
    }

    fn with_pages(len_bytes: usize, page_bytes: usize, flags: MemfdFlags) -> io::Result<Self> {
        let len_bytes = len_bytes
            .max(1)
            .checked_next_multiple_of(page_bytes)
            .filter(|&len| i64::try_from(len).is_ok())
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let fd = match memfd(flags, len_bytes) {
            Err(error) if error.raw_os_error() == Some(libc::EFBIG) => None,
            fd => Some(fd?),
        };
        let huge = match page_bytes {
            HUGE_PAGE_BYTES => libc::MAP_HUGETLB | libc::MAP_HUGE_2MB,
            _ => 0,
        };
        let (shared, file) = match &fd {
            // Miri knows private, anonymous mappings only: under it, memory is not shared.
            _ if cfg!(miri) => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, None),
            None => (libc::MAP_SHARED | libc::MAP_ANONYMOUS | huge, None),
            Some(fd) => (libc::MAP_SHARED, Some(fd.as_fd())),
        };
        Ok(Self { pages: Pages::map(file, 0, len_bytes, shared)?, page_bytes, fd })
    }

    /// Has pages that nothing has touched yet come from NUMA node `node`, as long as that has free ones
    /// (`mbind(2)`, `MPOL_PREFERRED`). Huge pages, which are there from the start, move. The file keeps that
    /// for its other mappings, too.
    ///
    /// # Errors
    /// `EINVAL` without such a node, `ENOSYS` if the kernel knows no nodes.
    pub fn prefer_node(&self, node: u32) -> io::Result<()> {
        let mut nodes = [0u64; NODES_MAX as usize / 64];
        let at = usize::try_from(node / 64).unwrap_or(usize::MAX);
        *nodes.get_mut(at).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))? = 1 << (node % 64);
        let (start, len_bytes) = (self.start().as_ptr(), self.len_bytes());
        // The kernel takes one bit less than it is told.
        let bits = libc::c_ulong::from(NODES_MAX + 1);
        let (prefer, moves) =
            (libc::MPOL_PREFERRED, if self.page_bytes == HUGE_PAGE_BYTES { MOVE } else { 0 });
        // SAFETY: this mapping, whose contents stay as they are, and a mask of that many bits, which the kernel reads.
        let bound =
            unsafe { libc::syscall(libc::SYS_mbind, start, len_bytes, prefer, nodes.as_ptr(), bits, moves) };
        if bound == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Returns the first byte's address. [`Mapping::len_bytes`] bytes from there on are valid while `self`
    /// lives.
    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.pages.start()
    }

    /// Returns the number of bytes mapped: whole pages.
    pub fn len_bytes(&self) -> usize {
        self.pages.len_bytes()
    }

    /// Returns the bytes of one page: [`HUGE_PAGE_BYTES`] or [`PAGE_BYTES`].
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Returns the memfd, for a peer to map. The caller answers for what the peer writes: see the text of the
    /// type that makes references to these bytes (`wharf_mem::Region::share_with_trusted_peer`).
    ///
    /// # Errors
    /// `EFBIG` if the limit on the size of files forbids one.
    pub fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd).ok_or_else(|| io::Error::from_raw_os_error(libc::EFBIG))
    }
}

/// True if the limit on the size of files forbids one of `len_bytes`. To go beyond it raises SIGXFSZ, which
/// ends a process that does not expect it.
fn is_beyond_file_limit(len_bytes: usize) -> bool {
    // Not by rustix, which takes the call for one that cannot fail: a filter of system calls may refuse it.
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel writes one `rlimit`, or nothing: then there is no limit that is known.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0;
    known && limit.rlim_cur < len_bytes as u64
}

/// Makes a file in memory that keeps its length.
///
/// # Errors
/// `EFBIG` beyond the limit on the size of files; those of `memfd_create(2)`, `ftruncate(2)` and `fcntl(2)`.
pub(crate) fn memfd(flags: MemfdFlags, len_bytes: usize) -> io::Result<OwnedFd> {
    // Miri has no memfd.
    if cfg!(miri) {
        return Ok(std::fs::File::open("/dev/null")?.into());
    }
    if is_beyond_file_limit(len_bytes) {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    let fd = memfd_create(c"wharf-region", flags | MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&fd, len_bytes as u64)?;
    fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(fd)
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;

    /// As a limit of a control group on huge pages does: a touch would be `SIGBUS`.
    #[test]
    fn pages_that_the_kernel_does_not_give_are_an_error_and_no_signal() {
        let file = memfd(MemfdFlags::empty(), PAGE_BYTES).unwrap();
        let map = |bytes| Pages::map(Some(file.as_fd()), 0, bytes, libc::MAP_SHARED).unwrap();
        map(PAGE_BYTES).populate().unwrap();
        let refused = map(2 * PAGE_BYTES).populate();
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EFAULT), "there is one page");
    }

    #[test]
    fn memory_is_taken_from_the_node_that_it_prefers() {
        let mapping = Mapping::shared_small_pages(4 * PAGE_BYTES).unwrap();
        assert_eq!(mapping.prefer_node(NODES_MAX).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        match mapping.prefer_node(0) {
            // A kernel without NUMA, or a filter of system calls that denies it, as in containers.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => return,
            preferred => preferred.unwrap(),
        }
        let maps = std::fs::read_to_string("/proc/thread-self/numa_maps").unwrap();
        let start = format!("{:x} ", mapping.start().as_ptr() as usize);
        let line = maps.lines().find(|line| line.trim_start_matches('0').starts_with(&start)).unwrap();
        assert!(line.contains("prefer:0"), "{line}");
    }
}
