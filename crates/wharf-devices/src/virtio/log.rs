//! `DirtyLog`: the bitmap of pages that a device has written, for a front end that copies the memory of a
//! running machine (QEMU, docs/interop/vhost-user.rst, "Migration").

use wharf_sys::shared::View;

/// Bytes that one bit stands for.
const PAGE_BYTES: u64 = 4096;
/// Bits of a word.
const BITS: u64 = u64::BITS as u64;

/// A bit for each page of guest addresses, from 0 on.
#[derive(Debug, Clone)]
pub struct DirtyLog(View);

impl DirtyLog {
    /// Takes the bitmap in `view`; `None` if that is not aligned for words of 8 bytes.
    pub fn new(view: View) -> Option<Self> {
        view.is_aligned(size_of::<u64>()).then_some(Self(view))
    }

    /// Returns true if the front end has taken it away.
    pub(super) fn is_broken(&self) -> bool {
        self.0.area().is_broken()
    }

    /// Notes that `len_bytes` were written from guest address `address` on. Pages beyond the bitmap are left
    /// out: the front end does not copy them.
    pub fn note(&self, address: u64, len_bytes: u64) {
        let Some(last) = len_bytes.checked_sub(1).map(|last| address.saturating_add(last) / PAGE_BYTES)
        else {
            return;
        };
        let end = (self.0.len_bytes() / size_of::<u64>()) as u64 * BITS;
        for page in address / PAGE_BYTES..(last + 1).min(end) {
            // The front end takes the bit before it copies the page: a full fence behind what was written.
            self.0.set_bits_u64((page / BITS) as usize * size_of::<u64>(), (1u64 << (page % BITS)).to_le());
        }
    }
}
