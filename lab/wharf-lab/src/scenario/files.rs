//! The files that a scenario names: a machine, and captures.

use std::path::{Path, PathBuf};
use wharf_devices::pcap::format::PcapReader;

/// Largest text that is read.
const TEXT_BYTES_MAX: u64 = 1 << 20;
/// Most packets of a capture.
const PACKETS_MAX: usize = 10_000_000;

/// The folder of a scenario, in which the files lie that it names. An error is one line, with the file's name.
#[derive(Debug, Clone)]
pub struct Folder(pub PathBuf);

impl Folder {
    /// Reads a text.
    pub(super) fn text(&self, name: &str) -> Result<String, String> {
        text_of(&self.0.join(name))
    }

    /// Returns the times of a capture's packets since its first one, in nanoseconds. None is before the one before it.
    pub(super) fn times_ns(&self, name: &str) -> Result<Vec<u64>, String> {
        let mut reader = PcapReader::open(&self.0.join(name)).map_err(|error| error.to_string())?;
        let (mut times, mut first, mut bytes) = (Vec::new(), None, Vec::new());
        while let Some(record) = reader.next(&mut bytes).map_err(|error| error.to_string())? {
            let since_ns = record.ts_ns.saturating_sub(*first.get_or_insert(record.ts_ns));
            times.push(since_ns.max(times.last().copied().unwrap_or(0)));
            if times.len() > PACKETS_MAX {
                return Err(format!("{name}: more than {PACKETS_MAX} packets: take a part of it"));
            }
        }
        Ok(times)
    }
}

/// Reads a text of at most 1 MiB.
///
/// # Errors
/// It cannot be read; the error names it.
pub fn text_of(path: &Path) -> Result<String, String> {
    let fault = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
    let meta = std::fs::metadata(path).map_err(|error| fault(&error))?;
    if !meta.is_file() || meta.len() > TEXT_BYTES_MAX {
        return Err(fault(&"want a file of at most 1 MiB"));
    }
    std::fs::read_to_string(path).map_err(|error| fault(&error))
}
