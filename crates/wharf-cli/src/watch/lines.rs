//! `Lines`: the file of `--stats-file`, and standard error for `--stats`. A reader that stalls holds up no run: what it does not take is left
//! out, a line at a time, and counted. The file is created anew once `logrotate(8)` has moved it.

use crate::log::{self, Level};
use crate::output::note;
use crate::progress::above;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A file that only its owner reads. A fifo may have no reader yet.
#[derive(Debug)]
pub(super) struct Lines {
    path: PathBuf,
    file: File,
    /// The end of a line that is written in part.
    rest: Vec<u8>,
    left_out: u64,
    /// The file was moved, and no other may be made.
    is_stuck: bool,
}

impl Lines {
    /// Creates the file, or empties the one that is there. No link is followed, and no reader of a fifo is waited for.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.into(), file: create(path)?, rest: Vec::new(), left_out: 0, is_stuck: false })
    }

    /// Writes a line, or leaves it out if the reader is behind.
    pub(super) fn write(&mut self, line: &str) -> io::Result<()> {
        self.write_rest()?;
        if !self.rest.is_empty() {
            self.left_out += 1;
            return Ok(());
        }
        let inode = |metadata: io::Result<Metadata>| metadata.ok().map(|file| (file.dev(), file.ino()));
        if inode(std::fs::metadata(&self.path)) != inode(self.file.metadata()) {
            match create(&self.path) {
                Ok(file) => self.file = file,
                // The user that the run has become may not be allowed to.
                Err(error) if !self.is_stuck => {
                    self.is_stuck = true;
                    let (path, folder) = (self.path.display(), "the folder must be the run's user's");
                    note(&format!(
                        "--stats-file {path}: cannot make it anew: {error}; the old file is written on: {folder}"
                    ));
                }
                Err(_) => {}
            }
        }
        self.rest.extend_from_slice(line.as_bytes());
        self.rest.push(b'\n');
        let len_bytes = self.rest.len();
        self.write_rest()?;
        if self.rest.len() == len_bytes {
            self.rest.clear();
            self.left_out += 1;
        }
        Ok(())
    }

    fn write_rest(&mut self) -> io::Result<()> {
        while !self.rest.is_empty() {
            match self.file.write(&self.rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len_bytes) => drop(self.rest.drain(..len_bytes)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}

fn create(path: &Path) -> io::Result<File> {
    // What `copytruncate` of logrotate(8) has cut begins anew.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_APPEND;
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600).custom_flags(flags);
    let opened = options.clone().create(true).truncate(true).open(path);
    match opened {
        // A fifo without a reader opens for both ways only (fifo(7)).
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => options.read(true).open(path),
        opened => opened,
    }
}

/// Standard output or standard error.
#[derive(Debug)]
pub(super) struct Stream {
    of: fn() -> Box<dyn AsFd>,
    /// The end of a text that is written in part.
    rest: Vec<u8>,
    left_out: u64,
}

impl Stream {
    pub(super) fn new(of: fn() -> Box<dyn AsFd>) -> Self {
        Self { of, rest: Vec::new(), left_out: 0 }
    }

    /// Prints a text and a new line as far as the reader takes it, or leaves it out if the reader is behind.
    pub(super) fn print(&mut self, text: &str) {
        self.write_rest();
        if self.is_behind() || !takes_more(&(self.of)()) {
            self.left_out += 1;
            return;
        }
        self.rest = format!("{text}\n").into_bytes();
        above(|| self.write_rest());
    }

    /// True if a text is written in part.
    pub(super) fn is_behind(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Writes on, as far as the reader takes it.
    pub(super) fn write_rest(&mut self) {
        self.write_while(|of| takes_more(of));
    }

    /// Writes in pieces. The stream itself is not told not to wait (O_NONBLOCK): a shell has it, too.
    fn write_while(&mut self, is_due: impl Fn(&dyn AsFd) -> bool) {
        let of = (self.of)();
        while self.is_behind() && is_due(&*of) {
            let piece = &self.rest[..self.rest.len().min(PIECE_BYTES)];
            match rustix::io::write(&of, piece) {
                Ok(len_bytes) => drop(self.rest.drain(..len_bytes)),
                Err(Errno::INTR) => {}
                // Another process has told the stream not to wait.
                Err(Errno::AGAIN) => break,
                // A reader that has gone is no failure, and a full disk is one of the summary's.
                Err(error) => {
                    self.rest.clear();
                    self.left_out += u64::from(error != Errno::PIPE);
                }
            }
        }
    }

    /// Waits until the reader has the whole of what it has in part: other lines come behind it.
    pub(super) fn finish(&mut self, within: Option<Duration>) {
        let end = within.map(|within| Instant::now() + within);
        let left = || end.map(|end| end.saturating_duration_since(Instant::now()));
        while self.is_behind() && left() != Some(Duration::ZERO) {
            self.write_while(|of| takes_more_within(of, left()));
        }
    }

    /// Prints a record of the log, or leaves it out if the reader is behind.
    pub(super) fn record(&mut self, text: &str) {
        if takes_more(&(self.of)()) { log::record(Level::Note, text) } else { self.left_out += 1 }
    }

    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// Bytes of a write that does not wait once poll(2) says that there is room (pipe(7)).
const PIECE_BYTES: usize = 4096;

/// True if a write of up to [`PIECE_BYTES`] does not wait.
fn takes_more(stream: &dyn AsFd) -> bool {
    takes_more_within(stream, Some(Duration::ZERO))
}

/// Waits until it is true, for up to `within`.
fn takes_more_within(stream: &dyn AsFd, within: Option<Duration>) -> bool {
    let fd = stream.as_fd();
    let mut polled = [PollFd::new(&fd, PollFlags::OUT)];
    let within = within.and_then(|within| Timespec::try_from(within).ok());
    poll(&mut polled, within.as_ref()).is_ok_and(|ready| ready > 0)
}

/// Notes the lines that were left out.
pub(super) fn tell_left_out(place: &str, left_out: u64) {
    if left_out > 0 && takes_more(&io::stderr()) {
        let lines = if left_out == 1 { "1 line" } else { &format!("{left_out} lines") };
        note(&format!("{place}: {lines} of counters left out, because it takes no more, or too slowly"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::sync::OnceLock;

    #[test]
    fn lines_go_into_a_new_file_once_the_old_one_was_moved() {
        let folder = std::env::temp_dir().join(format!("wharf-stats-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [path, moved] = ["now", "before"].map(|name| folder.join(name));
        let mut file = Lines::create(&path).unwrap();
        file.write("one").unwrap();
        std::fs::rename(&path, &moved).unwrap();
        file.write("two").unwrap();
        file.write("three").unwrap();
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        assert_eq!((read(&moved), read(&path)), ("one\n".into(), "two\nthree\n".into()));
        // `copytruncate` empties the file under the writer.
        File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        file.write("four").unwrap();
        assert_eq!(read(&path), "four\n");
        // The folder takes no new file: the old one is written on.
        std::fs::remove_dir_all(&folder).unwrap();
        file.write("five").unwrap();
    }

    #[test]
    fn a_text_that_has_begun_is_finished_for_as_long_as_the_reader_may_take() {
        static PIPE: OnceLock<io::PipeWriter> = OnceLock::new();
        let (mut reader, writer) = io::pipe().unwrap();
        rustix::pipe::fcntl_setpipe_size(&writer, PIECE_BYTES).unwrap();
        PIPE.set(writer).unwrap();
        let mut stream = Stream::new(|| Box::new(PIPE.get().unwrap()));
        stream.print(&"x".repeat(3 * PIECE_BYTES));
        stream.finish(Some(Duration::from_millis(10)));
        assert!(stream.is_behind(), "its reader stands");
        let reads = std::thread::spawn(move || {
            let mut text = vec![0; 3 * PIECE_BYTES + 1];
            reader.read_exact(&mut text).map(|()| text)
        });
        stream.finish(None);
        let text = reads.join().unwrap().unwrap();
        assert!(text.ends_with(b"x\n") && !stream.is_behind() && stream.left_out() == 0);
    }

    #[test]
    fn a_text_that_a_full_disk_keeps_out_is_counted() {
        let full = || Box::new(File::options().write(true).open("/dev/full").unwrap()) as Box<dyn AsFd>;
        let mut stream = Stream::new(full);
        stream.print("one");
        assert!(!stream.is_behind() && stream.left_out() == 1);
    }
}
