//! `Echo`: frames that a queue has sent come back by its own device, from a switch or a port that returns everything.

use super::receive::whole;
use super::{Findings, Verify};
use std::sync::{Arc, Mutex};
use wharf::Port;
use wharf_core::device::DeviceError;
use wharf_core::pool::Burst;
use wharf_core::queue::QueueError;
use wharf_core::rx::{Rest, RxQueue};
use wharf_mem::lock;

type Shared = Arc<Mutex<Box<dyn Verify>>>;

/// The receive side of a port, and the check of all that arrives there. The port's poller checks.
#[derive(Debug)]
pub struct Echo {
    receiver: RxQueue,
    check: Check,
}

struct Check(Shared);

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Check({:?})", lock(&self.0).findings())
    }
}

impl Echo {
    /// Makes that of `port`, which takes chains.
    ///
    /// # Errors
    /// Those of [`Port::on_receive`].
    pub fn new(port: &Port, check: Box<dyn Verify>) -> Result<Self, QueueError> {
        let clocks = check.clocks();
        let check = Arc::new(Mutex::new(check));
        let (checks, mut joined) = (check.clone(), Vec::new());
        let handler = move |burst: &mut Burst| {
            let (now, region, mut check) = (clocks.read(), burst.pool().region(), lock(&checks));
            for frame in burst.frames() {
                // All frames are of this pool: one of another was never sent.
                check.check(whole(region, frame, &mut joined).unwrap_or_default(), now);
            }
            Rest::Free
        };
        let receiver = port.on_receive(handler)?;
        Ok(Self { receiver, check: Check(check) })
    }

    /// Returns the receive side.
    pub fn receiver(&self) -> &RxQueue {
        &self.receiver
    }

    /// Returns the number of frames that have come back, and are checked.
    pub fn packets(&self) -> u64 {
        lock(&self.check.0).findings().packets
    }

    /// Returns the findings, and the device's last error as it received.
    pub fn finish(self) -> (Findings, Option<DeviceError>) {
        let findings = lock(&self.check.0).findings().clone();
        let error = self.receiver.take_error().or(self.receiver.close().err());
        (findings, error)
    }
}
