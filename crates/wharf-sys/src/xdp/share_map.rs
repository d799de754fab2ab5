//! `ShareMap`: numbers that a program and this process share, an array of entries of two words.

use super::bpf;
use crate::shared::{Area, View};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

const BPF_MAP_TYPE_ARRAY: u32 = 2;
/// This process may map it: Linux 5.5.
const BPF_F_MMAPABLE: u32 = 1 << 10;
const WORD_BYTES: usize = 8;

/// An array of entries of two words, 0 at first.
#[derive(Debug)]
pub struct ShareMap {
    fd: OwnedFd,
    words: View,
}

impl ShareMap {
    /// Makes one of `entries`.
    ///
    /// # Errors
    /// `EPERM` without `CAP_BPF` in the first user namespace; `EINVAL` before Linux 5.5.
    pub fn new(entries: u32) -> io::Result<Self> {
        let entry_bytes = 2 * WORD_BYTES as u32;
        // The kind of map, the bytes of a key and of a value, the number of entries, and flags.
        let mut attributes = [BPF_MAP_TYPE_ARRAY, 4, entry_bytes, entries, BPF_F_MMAPABLE];
        let fd = bpf::descriptor(bpf::MAP_CREATE, &mut attributes)?;
        let area = Arc::new(Area::of_map(fd.as_fd(), entries as usize * 2 * WORD_BYTES)?);
        let words = View::new(&area, 0, area.len_bytes()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { fd, words })
    }

    /// Returns its descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Sets the first word of entry `at`.
    ///
    /// # Panics
    /// There is no such entry.
    pub fn set(&self, at: usize, word: u64) {
        self.words.store_u64(2 * WORD_BYTES * at, word);
    }

    /// Returns the second word of entry `at`.
    ///
    /// # Panics
    /// There is no such entry.
    pub fn counted(&self, at: usize) -> u64 {
        self.words.load_u64(2 * WORD_BYTES * at + WORD_BYTES)
    }
}
