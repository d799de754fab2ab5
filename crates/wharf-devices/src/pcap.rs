//! `pcap`: captures, written (pcap) or read (pcap, pcapng) as a device.
//!
//! Spec: `pcap:FILE[,resolution=ns|us,order=le|be]` to write, `pcap:FILE[,snapped=refuse|pad|send]` to read.
//!
//! Packets keep their time: a frame read carries its record's time stamp (`Meta::time_ns`, from 1970), and a
//! frame written that carries one is recorded with it, others with the wall clock's.

pub mod format;
mod sink;
mod source;
mod spec;

pub use sink::PcapSink;
pub use source::{PcapSource, Snapped};

use format::PcapError;
#[doc(hidden)]
pub use format::create_file;
pub(crate) use spec::KIND;
use std::path::Path;
use wharf_core::device::DeviceError;

/// A device's name: what its specification begins with, on one line.
fn device_name(path: &Path) -> String {
    format!("pcap:{}", format::displayed(&path.to_string_lossy()))
}

/// An error about a file as one about its device. The device's name names the file.
#[doc(hidden)]
pub fn device_error(device: &str, error: PcapError) -> DeviceError {
    let device = device.to_string();
    let io = |what: String, source| DeviceError::Io { device: device.clone(), what, source };
    match error {
        PcapError::Open { cause, .. } => io("cannot open".into(), cause),
        PcapError::Read { offset_bytes, cause, .. } => io(format!("byte {offset_bytes}: cannot read"), cause),
        PcapError::Write { offset_bytes, cause, .. } => {
            io(format!("byte {offset_bytes}: cannot write"), cause)
        }
        PcapError::NotRegular { kind, verb, .. } => {
            DeviceError::Unsupported { device, what: format!("is a {kind}; wharf {verb} regular files") }
        }
        PcapError::Malformed { offset_bytes, fault, .. } => {
            DeviceError::Unsupported { device, what: format!("byte {offset_bytes}: {fault}") }
        }
    }
}
