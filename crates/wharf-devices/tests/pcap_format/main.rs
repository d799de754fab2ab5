//! Captures, pcap and pcapng: each fault and its error, any file written read back, any bytes no panic. Here:
//! files for the tests, and ways to read them.

mod files;
mod links;
mod malformed;
mod ng;
mod random;
mod round_trip;

use std::io::Cursor;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use wharf_devices::pcap::format::{
    ByteOrder, FileFormat, INTERFACES_MAX, PcapError, PcapOptions, PcapReader, PcapWriter, Record,
    Resolution, Rotation, SNAP_LEN_MAX, flush_all, parse_bytes, spare,
};

/// A little-endian microsecond file, put together field by field and not by the
/// writer, so that a mistake cannot cancel out.
struct Capture(Vec<u8>);

impl Capture {
    fn new() -> Self {
        Self::with_header(0xa1b2_c3d4, 65_535, 1)
    }

    fn with_header(magic: u32, snap_len: u32, link_type: u32) -> Self {
        let mut bytes = magic.to_le_bytes().to_vec();
        bytes.extend([2, 0, 4, 0]);
        bytes.extend([0; 8]);
        bytes.extend(snap_len.to_le_bytes());
        bytes.extend(link_type.to_le_bytes());
        Self(bytes)
    }

    /// Appends a record whose header may state anything.
    fn record(mut self, ts: (u32, u32), captured: u32, wire: u32, data: &[u8]) -> Self {
        for field in [ts.0, ts.1, captured, wire] {
            self.0.extend(field.to_le_bytes());
        }
        self.0.extend(data);
        self
    }

    /// Appends a good record of `len` bytes.
    fn packet(self, len: u32) -> Self {
        self.record((1, 2), len, len, &vec![7; len as usize])
    }

    fn fault(&self) -> String {
        parse_bytes(&self.0).unwrap_err().to_string()
    }
}

/// A record with its bytes.
type Packet = (Record, Vec<u8>);

/// Reads to the end or to the first error.
fn read_all(bytes: &[u8]) -> (Vec<Packet>, Option<PcapError>) {
    let mut reader = match PcapReader::new(Cursor::new(bytes), "x.pcap") {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let (mut packets, mut buf) = (Vec::new(), Vec::new());
    loop {
        match reader.next(&mut buf) {
            Ok(Some(record)) => packets.push((record, buf.clone())),
            Ok(None) => return (packets, None),
            Err(error) => {
                assert_eq!(buf, b"");
                let after = reader.next(&mut buf);
                assert!(matches!(after, Ok(None)), "the end follows an error");
                return (packets, Some(error));
            }
        }
    }
}

/// A directory that is removed again.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("wharf-pcap-{}-{count}", process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
