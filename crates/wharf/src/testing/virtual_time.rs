//! `Virtual`: ports in virtual time, for tests that are quick and give the same results each time.

use super::fault::{Fault, FaultCounts, FaultSpec};
use crate::OpenError;
use crate::port::{Host, Port, PortBuilder, World};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wharf_core::device::{AnyDevice, DeviceError};
use wharf_core::host::Clock;
use wharf_core::options::OptionError;
use wharf_core::wrap_device;
use wharf_devices::spec::Direction;

/// Virtual time, and the ports that live in it: wires (`wire`, with rate and delay) and `null`.
///
/// Time passes in waits, such as those of a sender, of a receiver or for events, and in [`Virtual::run`]; it
/// takes no time of the machine. One thread uses the ports of one value: then all that happens is the same in
/// each run. No other thread is started. A wait that nothing can end panics.
///
/// ```
/// use std::time::Duration;
/// use wharf::testing::Virtual;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let time = Virtual::new();
/// let port = time.port("wire:rate=8mbit,overhead=0,delay=5ms")?;
/// let far_end = port.far_end()?;
/// let mut receiver = far_end.receiver()?;
/// let mut sender = port.sender("test")?;
/// let packet = sender.packet(1000, Duration::ZERO)?;
/// sender.send_packet(packet, Duration::ZERO)?;
///
/// let mut received = far_end.burst(8);
/// assert_eq!(receiver.recv(&mut received, Duration::from_secs(60))?, 1);
/// assert_eq!(time.now(), Duration::from_millis(6)); // 1000 bytes at 8 Mbit/s, and the delay
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Virtual {
    world: Arc<World>,
}

impl Virtual {
    /// Begins at 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens a port that sends and receives, with the defaults of [`Port::open`].
    ///
    /// # Errors
    /// The errors of [`PortBuilder::build`]; also for other kinds of devices.
    pub fn port(&self, spec: &str) -> Result<Port, OpenError> {
        self.builder(spec).build()
    }

    /// Builds a port that sends and receives, with other settings. Its owners and its poller's mode stay as
    /// they are by default.
    pub fn builder(&self, spec: &str) -> PortBuilder {
        Port::builder(spec, Direction::Both).host(Host::World(self.world.clone()))
    }

    /// Works like [`Virtual::port`], for a device that fails as `faults` say: `error=1%`,
    /// `short=1/3,late=10%`; see [`FaultSpec::parse`]. Returns the counts of its faults, too.
    ///
    /// # Errors
    /// Those of [`Virtual::port`]; [`OpenError`] for faults that cannot be.
    pub fn port_with_faults(&self, spec: &str, faults: &str) -> Result<(Port, Arc<FaultCounts>), OpenError> {
        let parsed = FaultSpec::parse(faults).map_err(|error| {
            let error = OptionError { subject: spec.into(), what: format!("faults: {error}") };
            self.builder(spec).refusing().error(DeviceError::from(error).into())
        })?;
        let counts = Arc::new(Mutex::new(Arc::default()));
        let (world, kept) = (self.world.clone(), counts.clone());
        let around = move |device: AnyDevice| {
            wrap_device!(device, |inner| {
                let fault = Fault::new(inner, &parsed).clock(world.clone());
                *wharf_mem::lock(&kept) = fault.counts();
                fault
            })
        };
        let port = self.builder(spec).wrap(around).build()?;
        let counts = wharf_mem::lock(&counts).clone();
        Ok((port, counts))
    }

    #[cfg(test)]
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        self.world.clone()
    }

    /// Lets `time` pass.
    pub fn run(&self, time: Duration) {
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.world.run(self.world.now_ns().saturating_add(time_ns));
    }

    /// Returns the time since the beginning.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.world.now_ns())
    }
}
