//! Modelled systems: each carries traffic in virtual time, and is checked for conservation and order at the
//! end of a run.
//!
//! - [`linux_qdisc`]: the transmit path of Linux (qdisc, driver, NIC) on modelled processors.
//! - [`linux_tcp_host`]: the same with TCP streams and super-packets.
//! - [`wharf_path`]: Wharf's own path with all its parts.
//! - [`bql_wire`]: byte queue limits on a wire that changes its speed.
//! - [`veth_ring`]: byte queue limits on a ring that another processor empties.
//! - [`virtio_guest`]: a virtual machine that sends to its host by virtio-net.
//! - [`page_pool`]: allocators of receive buffers on modelled processors.

pub mod bql_wire;
pub mod linux_qdisc;
pub mod linux_tcp_host;
pub mod page_pool;
pub mod veth_ring;
pub mod virtio_guest;
mod waiting;
pub mod wharf_path;

/// Returns `part` × `scale` / `whole`, halves up; 0 of nothing.
pub(crate) fn rounded(part: u64, scale: u64, whole: u64) -> u64 {
    let (part, scale, half) = (u128::from(part), u128::from(scale), u128::from(whole / 2));
    (part * scale + half).checked_div(whole.into()).unwrap_or(0) as u64
}
