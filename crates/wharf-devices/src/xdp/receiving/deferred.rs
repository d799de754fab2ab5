//! `Deferred`: the interrupts of a polled queue, put off while a receiver is open.
//!
//! Busy polling keeps interrupts off only while its NAPI context defers them. That is set for the context of
//! the queue alone, where the kernel can (Linux 6.13, and a driver that names its contexts), and set back at
//! the end. A process that is killed, or has given up CAP_NET_ADMIN by then, leaves the setting behind: the
//! next receiver of the queue finds the numbers as it starts, and sets the interface's.

use std::fs;
use wharf_sys::netlink::{Deferral, Napi};

/// A poller that is held up for longer than both times has interrupts again.
pub(in super::super) const POLLED: Deferral = Deferral { empty_polls: 2, timeout_ns: 200_000 };

/// A context whose interrupts are put off.
#[derive(Debug)]
pub(super) struct Deferred {
    napi: Napi,
    before: Deferral,
}

impl Deferred {
    /// Puts the interrupts of queue `queue` of interface `index`, named `name`, off. `None` if the kernel
    /// cannot, or the user has put them off: then they are as the interface has them.
    pub(super) fn begin(index: i32, name: &str, queue: u32) -> Option<Self> {
        let (napi, before) = restored(index, name, queue)?;
        if before.empty_polls > 0 {
            return None;
        }
        napi.defer(POLLED).ok()?;
        Some(Self { napi, before })
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        // The interface may be gone.
        let _ = self.napi.defer(self.before);
    }
}

/// Sets back what a process that had queue `queue` before has left behind. Returns the queue's context, and
/// its deferral then; `None` if the kernel cannot.
pub(super) fn restored(index: i32, name: &str, queue: u32) -> Option<(Napi, Deferral)> {
    let napi = Napi::of_queue(index, queue).ok()?;
    let found = napi.deferral().ok()?;
    if found != POLLED {
        return Some((napi, found));
    }
    let of_interface = interface(name)?;
    napi.defer(of_interface).ok()?;
    Some((napi, of_interface))
}

/// Returns the deferral of an interface, which each of its contexts begins with.
pub(in super::super) fn interface(name: &str) -> Option<Deferral> {
    let read =
        |file: &str| fs::read_to_string(format!("/sys/class/net/{name}/{file}")).ok()?.trim().parse().ok();
    Some(Deferral { empty_polls: read("napi_defer_hard_irqs")?, timeout_ns: read("gro_flush_timeout")? })
}
