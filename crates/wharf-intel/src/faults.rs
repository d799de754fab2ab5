//! Refusals: of a frame, by reason, and of an adapter.

use super::family::Family;
use super::options::PortOptions;
use super::tx::{SEGMENTS_MAX, Tx};
use std::io;
use wharf_core::device::DeviceError;
use wharf_devices::iface::{ETHERNET_BYTES, VLAN_BYTES, io_fault, is_tagged};
use wharf_mem::{Frame, Region};
use wharf_sys::errno::{ENODEV, ENOMEM, ENOSPC};

/// Returns the reason that the adapter cannot send a frame: it is too long, too short, of too many buffers, or of
/// another pool.
#[cold]
pub(super) fn fault_of<F: Family>(tx: &Tx<F>, frame: &Frame, options: &PortOptions) -> Option<&'static str> {
    let Ok(first) = tx.region().bytes(frame) else { return Some("foreign-pool") };
    let longest_bytes = options.longest_bytes() + if is_tagged(first) { VLAN_BYTES } else { 0 };
    match tx.segments(frame) {
        _ if frame.len_bytes() <= ETHERNET_BYTES => Some("too-short"),
        _ if frame.len_bytes() > longest_bytes && !is_super(tx.region(), frame) => Some("too-long"),
        segments if segments > SEGMENTS_MAX.min(tx.size() - 2) => Some("too-many-chunks"),
        _ => None,
    }
}

/// True for a super-packet, whose segments are looked at later.
fn is_super(region: &Region, frame: &Frame) -> bool {
    region.meta(frame).is_ok_and(|meta| meta.gso_bytes > 0)
}

/// Returns the error of an adapter that cannot reach memory.
pub(super) fn attach_fault(device: &str, error: io::Error) -> DeviceError {
    let what = match error.raw_os_error() {
        Some(ENOMEM) => {
            "the kernel does not lock its memory: raise the limit (`ulimit -l`), or use fewer frames"
        }
        Some(ENOSPC) => "its memory does not fit into the addresses that the adapter has: use fewer frames",
        _ => "the kernel does not let the adapter reach its memory (`dmesg` may say why)",
    };
    io_fault(device, what)(error)
}

/// Returns an error for an adapter that is not there.
pub(super) fn missing(device: &str) -> DeviceError {
    io_fault(device, "no such adapter (`lspci -D` lists them)")(io::Error::from_raw_os_error(ENODEV))
}
