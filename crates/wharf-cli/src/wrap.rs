//! The wrappers that a command puts around its device, and their reports.

use crate::args::WrapArgs;
use crate::recovery::Recovery;
use crate::report::{FaultReport, TraceReport};
use std::path::PathBuf;
use std::sync::Arc;
use wharf::device::wrap_device;
use wharf::device::{AnyDevice, DeviceError};
use wharf::testing::{FailingMemory, Fault, FaultCounts, FaultSpec};
use wharf_tools::trace::{TraceCounts, TraceFile};

/// The wrappers around a device.
#[derive(Debug, Default)]
pub(crate) struct Wrapped {
    fault: Option<(FaultSpec, Arc<FaultCounts>)>,
    trace: Option<(PathBuf, Arc<TraceCounts>)>,
}

/// Wraps `device`, which `recovery` opens again, as `args` say. The trace is next to the device: frames in it have reached the device.
pub(crate) fn wrap(
    mut device: AnyDevice, args: &WrapArgs, recovery: &Recovery,
) -> Result<(AnyDevice, Wrapped), DeviceError> {
    let mut wrapped = Wrapped::default();
    if let Some(path) = &args.trace {
        let file = TraceFile::create(path)?;
        wrapped.trace = Some((path.clone(), file.counts()));
        device = wrap_device!(device, |inner| file.around(inner));
    }
    if let Some(spec) = &args.fault {
        let counts = &mut wrapped.fault;
        device = wrap_device!(device, |inner| {
            let fault = Fault::new(inner, spec);
            *counts = Some((spec.clone(), fault.counts()));
            recovery.reset_with(fault.reset());
            fault
        });
    }
    Ok((device, wrapped))
}

impl Wrapped {
    /// Returns the failing takes of sender number `sender`.
    pub(crate) fn memory(&self, sender: u32) -> FailingMemory {
        match &self.fault {
            Some((spec, counts)) => FailingMemory::new(spec, sender, counts),
            None => FailingMemory::default(),
        }
    }

    /// Returns the counts of injected faults, if there are to be any.
    pub(crate) fn faults(&self) -> Option<FaultReport> {
        let (spec, counts) = self.fault.as_ref()?;
        let injected = counts.by_kind().map(|(kind, count)| (kind.to_string(), count)).collect();
        Some(FaultReport { seed: spec.seed, injected })
    }

    /// Returns the counts of the trace, which is whole once its device is closed, if there is one.
    pub(crate) fn trace(&self) -> Option<TraceReport> {
        self.trace.as_ref().map(|(file, counts)| TraceReport::of(file, counts))
    }
}
