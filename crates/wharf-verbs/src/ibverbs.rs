//! RDMA verbs by libibverbs: unreliable datagrams between queue pairs, out of and into memory of the caller's.
//!
//! The library is loaded when a device is first asked for ([`Library::load`]): nothing links to it. The types own the objects of the
//! library by reference counts, so that each goes before what it was made of: a [`QueuePair`] before its [`CompletionQueue`]s, these
//! before their [`CompletionChannel`], all before the [`Context`].
//!
//! A [`MemoryRegion`] is a mapping that the adapter may read and write. It accesses only buffers that a posted request names,
//! until the request's completion. A caller that posts requests owns their buffers until then: a device keeps their frames in a table.

mod abi;
mod completion;
mod context;
#[cfg(feature = "fake")]
#[path = "../tests/fake/mod.rs"]
pub mod fake;
mod library;
mod memory;
mod queue_pair;

pub use completion::{Completion, CompletionChannel, CompletionQueue, Status};
pub use context::{AsyncEvent, Context, Gid, PortState};
pub use library::{Library, free_removed_devices};
pub use memory::{MemoryRegion, ProtectionDomain};
pub use queue_pair::{AddressHandle, QueuePair, QueuePairOptions, ReceiveRequest, SendRequest};

/// Bytes in front of each received datagram: the global route header, or room for it (`IBV_WC_GRH`).
pub const GRH_BYTES: usize = 40;

use std::io;

/// Makes the error of a call that returns an error number, as most of libibverbs do.
fn check_number(returned: libc::c_int) -> io::Result<()> {
    match returned {
        0 => Ok(()),
        // A few providers return -1, with the number in `errno`.
        number if number < 0 => Err(io::Error::last_os_error()),
        number => Err(io::Error::from_raw_os_error(number)),
    }
}
