//! `pcap`: captures, written (pcap) or read (pcap, pcapng) as a device.
//!
//! Spec: `pcap:FILE[,format=...,size=...]` to write, `pcap:FILE[,snapped=refuse|pad|send]` to read.
//!
//! FILE may be a fifo, or `-` for standard input and output ([`is_stream`]).
//!
//! Packets keep their time: a received frame carries its record's time stamp (`Meta::time_ns`, from 1970). A
//! frame with a time stamp is written with it, any other with the wall clock's time.
//!
//! Records that can be no frame are skipped and counted, with their reason: [`format::Record::misfit`].
//! Packets of other link types become Ethernet frames where that can be.

mod doctor;
pub mod format;
mod pipe;
mod sink;
mod skipped;
mod source;
mod spec;
mod stream;

pub use pipe::{create_stream, end_stream, is_standard, is_stream, would_block, write_without_waiting};
pub use sink::PcapSink;
pub use skipped::{DIRECTION, EMPTY, LINK_TYPE, Skipped, TOO_LONG};
pub use source::{PcapSource, Snapped};
pub use stream::{PcapStream, StreamFrame};

use format::PcapError;
#[doc(hidden)]
pub use format::{create_file, flush_all, shortened, spare};
pub(crate) use spec::KIND;
use std::io::ErrorKind;
use std::path::Path;
use wharf_core::device::DeviceError;

/// Returns a device's name: the beginning of its specification, on one line.
fn device_name(path: &Path) -> String {
    format!("pcap:{}", format::displayed(&path.to_string_lossy()))
}

/// Makes an error of the device from an error of its file. The device's name names the file.
#[doc(hidden)]
pub fn device_error(device: &str, error: PcapError) -> DeviceError {
    let device = device.to_string();
    let io = |what: String, source| DeviceError::Io { device: device.clone(), what, source };
    match error {
        PcapError::Open { cause, .. } => io("cannot open".into(), cause),
        PcapError::Read { offset_bytes, cause, .. } => io(format!("byte {offset_bytes}: cannot read"), cause),
        PcapError::Write { cause: source, .. } if source.kind() == ErrorKind::BrokenPipe => {
            DeviceError::Gone { device, what: "its reader has gone".into(), source }
        }
        PcapError::Write { cause: source, .. } if source.kind() == ErrorKind::WouldBlock => {
            io("its reader takes nothing".into(), source)
        }
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
