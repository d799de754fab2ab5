//! A capture in files: it begins one, and goes on in others.

use std::fs::{File, Metadata};
use std::path::Path;

use super::{ErrorOnce, INTERFACE, PcapWriter};
use crate::pcap::format::create::{create_file, empty, open_file};
use crate::pcap::format::error::displayed;
use crate::pcap::format::rotation::{Next, Turns};
use crate::pcap::format::{PcapError, PcapOptions};

impl PcapWriter {
    /// Creates a file, or empties the one that is there, and writes the header.
    ///
    /// Besides regular files, character devices such as `/dev/null` are taken.
    /// Directories, fifos (which wait for a reader), sockets, block devices and
    /// links are not. A new file is its owner's alone: it holds traffic.
    ///
    /// # Errors
    ///
    /// If the path names one of those, or creating or writing the file fails.
    pub fn create(path: &Path, options: PcapOptions) -> Result<Self, PcapError> {
        Self::create_of(path, options, INTERFACE)
    }

    /// Works like [`Self::create`], for packets of `interface`, whose name is in a pcapng file.
    ///
    /// # Errors
    ///
    /// Those of [`Self::create`].
    pub fn create_of(path: &Path, options: PcapOptions, interface: &str) -> Result<Self, PcapError> {
        let turns = options.rotation.map(|rotation| Turns::new(rotation, path));
        let path = turns.as_ref().map_or(path, Turns::path);
        let mut writer = Self::new_of(create_file(path)?, &path.to_string_lossy(), options, interface)?;
        (writer.turns, writer.turn) = (turns, Self::turn);
        // Another kind of file stays unchanged, and one that another program has cut.
        writer.len_bytes = len_of;
        writer.cut = |file, len_bytes| {
            len_of(file).is_some_and(|is_bytes| is_bytes > len_bytes) && file.set_len(len_bytes).is_ok()
        };
        Ok(writer)
    }

    /// Goes on in another file, if the packet of `ts_ns` is for one. While there is none, this one goes on.
    fn turn(&mut self, ts_ns: u64) {
        let len_bytes = self.whole_bytes() + self.pending.len() as u64;
        let Some(turns) = &mut self.turns else { return };
        if !turns.is_due(len_bytes, ts_ns) {
            return;
        }
        let next = turns.next(ts_ns);
        let turned = self.go_on(next);
        match turned {
            Ok(()) => self.trouble = ErrorOnce::None,
            Err(error) => {
                self.turns.iter_mut().for_each(|turns| turns.put_off(ts_ns));
                self.trouble.note(error);
            }
        }
    }

    fn go_on(&mut self, next: Next) -> Result<(), PcapError> {
        let sink = open_file(&next.path)?;
        // All of this file is on the disk before the other one loses what it has.
        self.flush()?;
        let ended = self.end();
        self.has_ended = false;
        ended?;
        empty(&sink, &next.path)?;
        (self.sink, self.name) = (sink, displayed(&next.path.to_string_lossy()));
        if let Some(turns) = &mut self.turns {
            turns.begin(next);
        }
        (self.written_bytes, self.packets, self.head_bytes) = (0, 0, self.head.len());
        self.pending.extend_from_slice(&self.head);
        self.write_pending()
    }
}

/// Returns the length of a regular file.
fn len_of(file: &File) -> Option<u64> {
    file.metadata().ok().filter(Metadata::is_file).map(|of| of.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Result, Write};

    /// A disk with so much room.
    struct Room(usize);

    impl Write for Room {
        fn write(&mut self, bytes: &[u8]) -> Result<usize> {
            let taken = bytes.len().min(self.0);
            self.0 -= taken;
            if taken == 0 { Err(ErrorKind::StorageFull.into()) } else { Ok(taken) }
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_head_that_the_disk_did_not_take_is_no_record() {
        for (room_bytes, whole_bytes, pending) in [(20, 0, 2), (24 + 40, 24, 2), (24 + 76 + 1, 24 + 76, 1)] {
            let mut writer = PcapWriter::new(Room(1000), "x", PcapOptions::default()).unwrap();
            let write = |writer: &mut PcapWriter<Room>| writer.write(1, [&[7; 60][..]], 60).unwrap();
            write(&mut writer);
            writer.flush().unwrap();
            // Another program has emptied it, and the disk is full before all is written.
            writer.len_bytes = |_| Some(0);
            writer.sink = Room(room_bytes);
            (0..2).for_each(|_| write(&mut writer));
            assert!(writer.flush().is_err());
            assert_eq!((writer.whole_bytes(), writer.pending_records()), (whole_bytes, pending));
            writer.sink = Room(1000);
            writer.len_bytes = |_| None;
            assert!(writer.flush().is_ok() && writer.written_bytes == 24 + 2 * 76);
        }
    }
}
