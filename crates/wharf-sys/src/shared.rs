//! Memory shared with an untrusted peer: another process may write it at any time.
//!
//! No reference to its bytes is ever made. Words are accessed as atomics; longer pieces are copied by
//! volatile accesses. What was read once is what is checked and used, whatever the peer writes meanwhile. The
//! peer can write nonsense, and can truncate a file that is not sealed: see [`crate::guard`].

mod table;
mod view;

pub use table::{Pair, Record, Short, Table, Words};
pub use view::{View, snapshot};

use crate::call::Pages;
use crate::guard::{self, Guard};
use crate::mapping::Mapping;
use rustix::fs::{SealFlags, fcntl_add_seals, fcntl_get_seals, fstat};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Why a file is not mapped.
const UNSEALED: &str = "its owner may truncate the file: that takes a seal (F_SEAL_SHRINK), or this process's SIGBUS handler \
    (wharf_sys::guard::install)";

/// Most bytes of peers' files that are mapped at a time: half of a process's addresses on x86-64. Many peers
/// together would use them up, one after the other.
const PEERS_BYTES_MAX: usize = 64 << 40;
static PEERS_BYTES: AtomicUsize = AtomicUsize::new(0);

const NOT_IN_MEMORY: &str = "its file is not in memory (memfd, tmpfs, hugetlbfs)";

/// A mapping that a peer has, too.
#[derive(Debug)]
pub struct Area(Owner);

/// The mapping. All accesses to it, in [`View`], are atomic or volatile.
#[derive(Debug)]
enum Owner {
    /// A peer may punch holes into it. A guard is dropped first.
    Own(Option<Guard>, Mapping),
    /// A peer may truncate its file: then the mapping is guarded.
    Peer(Option<Guard>, PeersPages),
}

/// Pages of a peer's file: a part of [`PEERS_BYTES_MAX`].
#[derive(Debug)]
struct PeersPages(Pages);

impl PeersPages {
    fn map(fd: BorrowedFd<'_>, len_bytes: usize) -> io::Result<Self> {
        let add = |mapped: usize| mapped.checked_add(len_bytes).filter(|&sum| sum <= PEERS_BYTES_MAX);
        PEERS_BYTES.fetch_update(Relaxed, Relaxed, add).map_err(|mapped| {
            let what = format!("{len_bytes} bytes besides {mapped} of all peers: {PEERS_BYTES_MAX} at most");
            io::Error::new(io::ErrorKind::OutOfMemory, what)
        })?;
        let pages = Pages::map(Some(fd), 0, len_bytes, libc::MAP_SHARED);
        pages.map(Self).inspect_err(|_| _ = PEERS_BYTES.fetch_sub(len_bytes, Relaxed))
    }
}

impl Drop for PeersPages {
    fn drop(&mut self) {
        PEERS_BYTES.fetch_sub(self.0.len_bytes(), Relaxed);
    }
}

impl Area {
    /// Takes memory of this process, to be given to a peer.
    pub fn new(mapping: Mapping) -> Self {
        Self(Owner::Own(None, mapping))
    }

    /// Makes `len_bytes` to be given to a peer. They lie on huge pages if the caller `wants_huge_pages`, there are some, and
    /// [`crate::guard::install`] was called: no seal keeps the peer from punching holes into the file. A hole among
    /// small pages is filled again at the next access. One among huge pages takes a free page, or raises `SIGBUS`.
    ///
    /// # Errors
    /// Those of [`Mapping::shared`] and [`Guard::new`].
    pub fn for_peer(len_bytes: usize, wants_huge_pages: bool) -> io::Result<Self> {
        if !(wants_huge_pages && guard::is_installed()) {
            return Mapping::shared_small_pages(len_bytes).map(Self::new);
        }
        let mapping = Mapping::shared(len_bytes)?;
        // SAFETY: whole pages, which are unmapped after the guard is dropped: see `Owner`. There are no references to
        // their contents.
        let guard = unsafe { Guard::new(addresses(mapping.start(), mapping.len_bytes())) }?;
        Ok(Self(Owner::Own(Some(guard), mapping)))
    }

    /// Maps the first `len_bytes` of a peer's file, rounded up to its block size (a huge page, perhaps). The file is in
    /// memory: another file system might never answer, and an access would then sleep for ever.
    ///
    /// # Errors
    /// `InvalidInput` for a file on another file system, for 0 bytes, or more than the file has. `Unsupported` if the
    /// peer may truncate the file and [`crate::guard::install`] was not called. `OutOfMemory` if all
    /// peers have more than 64 TiB. Those of `fstat(2)` and `mmap(2)`.
    pub fn of_peer(fd: BorrowedFd<'_>, len_bytes: u64) -> io::Result<Self> {
        let bad = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
        // Files in memory alone have seals. No file system is asked.
        if fcntl_get_seals(fd).is_err() {
            return Err(bad(NOT_IN_MEMORY.into()));
        }
        let (file_bytes, block_bytes) = size_of_file(fd)?;
        if len_bytes == 0 || len_bytes > file_bytes {
            return Err(bad(format!("{len_bytes} bytes of a file that has {file_bytes}")));
        }
        let len_bytes =
            usize::try_from(len_bytes).ok().and_then(|len| len.checked_next_multiple_of(block_bytes));
        let len_bytes = len_bytes.ok_or_else(|| bad("too long to be mapped".into()))?;
        let pages = PeersPages::map(fd, len_bytes)?;
        // SAFETY: as above.
        let guard = match unsafe { Guard::new(addresses(pages.0.start(), len_bytes)) } {
            Ok(guard) => Some(guard),
            Err(error) if error.kind() != io::ErrorKind::Unsupported => return Err(error),
            Err(_) if is_sealed(fd) => None,
            Err(error) => return Err(io::Error::new(error.kind(), UNSEALED)),
        };
        Ok(Self(Owner::Peer(guard, pages)))
    }

    /// Maps the first `len_bytes` of a map of the kernel's programs, which keeps its length.
    pub(crate) fn of_map(fd: BorrowedFd<'_>, len_bytes: usize) -> io::Result<Self> {
        let len_bytes = len_bytes.next_multiple_of(crate::mapping::PAGE_BYTES);
        Ok(Self(Owner::Peer(None, PeersPages::map(fd, len_bytes)?)))
    }

    /// Returns the number of bytes mapped.
    pub fn len_bytes(&self) -> usize {
        match &self.0 {
            Owner::Own(_, mapping) => mapping.len_bytes(),
            Owner::Peer(_, pages) => pages.0.len_bytes(),
        }
    }

    /// Returns the mapping, if it is this process's own.
    pub fn mapping(&self) -> Option<&Mapping> {
        match &self.0 {
            Owner::Own(_, mapping) => Some(mapping),
            Owner::Peer(..) => None,
        }
    }

    /// True if the peer has truncated its file, or punched holes into ours: from then on the peer does not have this memory.
    #[inline]
    pub fn is_broken(&self) -> bool {
        let (Owner::Own(guard, _) | Owner::Peer(guard, _)) = &self.0;
        guard.as_ref().is_some_and(Guard::is_broken)
    }

    fn start(&self) -> NonNull<u8> {
        match &self.0 {
            Owner::Own(_, mapping) => mapping.start(),
            Owner::Peer(_, pages) => pages.0.start(),
        }
    }
}

fn addresses(start: NonNull<u8>, len_bytes: usize) -> Range<usize> {
    start.as_ptr() as usize..start.as_ptr() as usize + len_bytes
}

/// True if the file cannot be truncated (`F_SEAL_SHRINK`). Until then its owner can make an access raise
/// `SIGBUS`.
pub fn is_sealed(fd: BorrowedFd<'_>) -> bool {
    fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(SealFlags::SHRINK))
}

/// Seals a file against truncation, if its owner allows that. Returns true if it is sealed.
pub fn seal(fd: BorrowedFd<'_>) -> bool {
    let _ = fcntl_add_seals(fd, SealFlags::SHRINK);
    is_sealed(fd)
}

/// Returns the number of bytes of a file and of one of its blocks.
fn size_of_file(fd: BorrowedFd<'_>) -> io::Result<(u64, usize)> {
    let stat = fstat(fd)?;
    let block_bytes = usize::try_from(stat.st_blksize).unwrap_or(0).max(crate::mapping::PAGE_BYTES);
    Ok((u64::try_from(stat.st_size).unwrap_or(0), block_bytes))
}
