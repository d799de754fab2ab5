//! The wrappers that a command puts around its device, and their reports.

use crate::args::WrapArgs;
use crate::report::{FaultReport, TraceReport};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use wharf::device::{DeviceError, wrap_device};
use wharf::testing::{Fault, FaultCounts, FaultSpec};
use wharf_core::device::AnyDevice;
use wharf_mem::lock;
use wharf_tools::trace::{TraceCounts, TraceFile};

/// Says that the device behind the faults is opened anew.
pub(crate) type FaultReset = Arc<dyn Fn() + Send + Sync>;

/// The wrappers around a device.
#[derive(Default)]
pub(crate) struct Wrapped {
    fault: Option<(FaultSpec, Arc<Mutex<Injected>>)>,
    trace: Option<(PathBuf, Arc<TraceCounts>)>,
}

/// The faults around a device that was opened.
#[derive(Default)]
struct Injected {
    counts: Arc<FaultCounts>,
    resets: Vec<FaultReset>,
}

/// Returns what wraps a device as `args` say. The trace is next to the device: frames in it have reached the device.
pub(crate) fn wrap(
    args: &WrapArgs,
) -> Result<(impl FnMut(AnyDevice) -> AnyDevice + Send + 'static, Wrapped), DeviceError> {
    let file = args.trace.as_deref().map(TraceFile::create).transpose()?;
    let trace = args.trace.clone().zip(file.as_ref().map(TraceFile::counts));
    let fault = args.fault.clone().map(|spec| (spec, Arc::<Mutex<Injected>>::default()));
    let wrapped = Wrapped { fault: fault.clone(), trace };
    let wrap = move |mut device: AnyDevice| {
        if let Some(file) = &file {
            device = wrap_device!(device, |inner| file.around(inner));
        }
        if let Some((spec, injected)) = &fault {
            device = wrap_device!(device, |inner| {
                let (fault, mut injected) = (Fault::new(inner, spec), lock(injected));
                injected.counts = fault.counts();
                injected.resets.push(fault.reset());
                fault
            });
        }
        device
    };
    Ok((wrap, wrapped))
}

impl Wrapped {
    /// Returns the failing takes of sender number `sender`.
    pub(crate) fn failing_takes(&self, sender: u32) -> impl FnMut() -> bool + Send + use<> {
        match &self.fault {
            Some((spec, injected)) => spec.failing_takes(sender, &lock(injected).counts),
            None => FaultSpec::default().failing_takes(sender, &Arc::default()),
        }
    }

    /// Returns what ends the faults when the device is opened anew.
    pub(crate) fn resets(&self) -> Vec<FaultReset> {
        self.fault.as_ref().map_or(Vec::new(), |(_, injected)| lock(injected).resets.clone())
    }

    /// Returns the counts of injected faults, if there are to be any.
    pub(crate) fn faults(&self) -> Option<FaultReport> {
        let (spec, injected) = self.fault.as_ref()?;
        let injected =
            lock(injected).counts.by_kind().map(|(kind, count)| (kind.to_string(), count)).collect();
        Some(FaultReport { seed: spec.seed, injected })
    }

    /// Returns the counts of the trace, which is whole once its device is closed, if there is one.
    pub(crate) fn trace(&self) -> Option<TraceReport> {
        self.trace.as_ref().map(|(file, counts)| TraceReport::of(file, counts))
    }
}
