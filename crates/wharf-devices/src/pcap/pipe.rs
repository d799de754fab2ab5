//! Captures in pipes: standard input and output, which are called `-`, and fifos.

use super::format::{PcapError, PcapOptions, PcapWriter, displayed};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use wharf_sys::file::{lengthen_pipe, reopen_pipe};

/// Length of a pipe that is read, bytes: the kernel's bound for programs without privileges (`pipe-max-size`).
/// Of its usual 64 KiB, both ends sleep and wake once for every 40 full frames.
const PIPE_BYTES: usize = 1 << 20;
/// Time in which the reader of a stream takes something, or is given up, once the device is closed.
const CLOSING: Duration = Duration::from_millis(200);
/// Time between two attempts then.
const AGAIN: Duration = Duration::from_millis(2);

/// True if `path` is `-`, which stands for standard input or output, or names a fifo.
pub fn is_stream(path: &Path) -> bool {
    is_standard(path) || fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// True if `path` is `-`.
pub fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Makes a writer into standard output or a fifo; opening a fifo waits for its reader.
///
/// # Errors
/// [`PcapError`].
pub fn create_stream(path: &Path, options: PcapOptions) -> Result<PcapWriter, PcapError> {
    let (name, file) = match is_standard(path) {
        true => ("standard output".into(), duplicate(&io::stdout())),
        false => (path.to_string_lossy(), OpenOptions::new().write(true).open(path)),
    };
    let file = file.map_err(|cause| PcapError::Open { file: displayed(&name), cause })?;
    if options.rotation.is_some() {
        return Err(PcapError::NotRegular { file: displayed(&name), kind: "stream", verb: "rotates" });
    }
    PcapWriter::new(file, &name, options)
}

/// Makes `writer` fail with `WouldBlock` in place of waiting for a pipe's reader. It waits as before if that cannot be: for
/// a socket or a terminal, or the pipe of another user.
pub fn write_without_waiting(writer: &mut PcapWriter) {
    if let Ok(Some(pipe)) = reopen_pipe(writer.sink_mut().as_fd()) {
        *writer.sink_mut() = pipe;
    }
}

/// True if the reader of a stream had no room.
pub fn would_block(error: &PcapError) -> bool {
    matches!(error, PcapError::Write { cause, .. } if cause.kind() == ErrorKind::WouldBlock)
}

/// Writes the rest, and ends the capture. A reader that takes nothing for 0.2 s is given up.
///
/// # Errors
/// [`PcapError`]: see [`would_block`].
pub fn end_stream<W: Write>(writer: &mut PcapWriter<W>) -> Result<(), PcapError> {
    let (mut left, mut since) = (writer.pending_records(), Instant::now());
    while writer.flush().is_err_and(|error| would_block(&error)) && since.elapsed() < CLOSING {
        if writer.pending_records() < left {
            (left, since) = (writer.pending_records(), Instant::now());
        }
        sleep(AGAIN);
    }
    writer.end()
}

/// Opens standard input or a fifo for reading. Returns its name, too.
pub(super) fn open_pipe(path: &Path) -> Result<(File, String), PcapError> {
    let (name, file) = match is_standard(path) {
        true => ("standard input".into(), duplicate(&io::stdin())),
        false => (path.to_string_lossy(), File::open(path)),
    };
    let file = file.map_err(|cause| PcapError::Open { file: displayed(&name), cause })?;
    lengthen_pipe(file.as_fd(), PIPE_BYTES);
    Ok((file, name.into()))
}

/// Opens the file of `stream` once more: bytes then bypass the buffer of the standard library.
fn duplicate(stream: &impl AsFd) -> io::Result<File> {
    stream.as_fd().try_clone_to_owned().map(File::from)
}
