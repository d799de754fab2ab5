//! `Stream`: standard output or standard error, whose reader may stall. It holds up no run: a text goes out
//! in pieces as the reader takes them, and none is within another. What comes meanwhile waits, up to a
//! bound, or is left out and counted.

use crate::progress::above;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Bytes of a write that does not wait once poll(2) says that there is room (pipe(7)).
const PIECE_BYTES: usize = 4096;
/// Bytes of notes and records that wait for a reader.
const WAITING_BYTES: usize = 64 << 10;
/// Bytes behind those for errors: the last one says why the run ends.
const ERROR_BYTES: usize = 16 << 10;
/// Time that the end of a run waits for a reader which takes nothing.
const PATIENCE: Duration = Duration::from_secs(1);
/// Has the thread that was given to [`watch`] write on.
pub(crate) const WRITE_ON: u8 = 1;

/// Standard error: all texts of this process go by it.
static ERRORS: Mutex<Stream> = Mutex::new(Stream::new(|| Box::new(std::io::stderr())));
/// Wakes the thread that writes on.
static WAKES: Mutex<Option<UnixStream>> = Mutex::new(None);

/// Returns standard error.
pub(crate) fn errors() -> MutexGuard<'static, Stream> {
    wharf_mem::lock(&ERRORS)
}

/// Makes [`say`] wait for no reader from now on: a thread reads [`WRITE_ON`] from the other end of `wakes`,
/// and then writes on.
pub(crate) fn watch(wakes: UnixStream) {
    *wharf_mem::lock(&WAKES) = Some(wakes);
}

/// Prints whole lines on standard error. A reader that is behind is waited for where no thread writes on.
pub(crate) fn say(lines: &[u8], is_error: bool) {
    let mut errors = errors();
    let was_behind = errors.is_behind();
    errors.queue(lines, WAITING_BYTES + if is_error { ERROR_BYTES } else { 0 });
    match &*wharf_mem::lock(&WAKES) {
        None => errors.finish(None),
        Some(wakes) if errors.is_behind() && !was_behind => drop((&*wakes).write(&[WRITE_ON])),
        Some(_) => {}
    }
}

/// Waits at the end of a run until standard error has all, or takes nothing.
pub(crate) fn end() {
    errors().finish(Some(PATIENCE));
}

/// Standard output or standard error.
#[derive(Debug)]
pub(crate) struct Stream {
    of: fn() -> Box<dyn AsFd>,
    /// What the reader has not taken: whole texts, but for the first.
    rest: Vec<u8>,
    left_out: u64,
}

impl Stream {
    pub(crate) const fn new(of: fn() -> Box<dyn AsFd>) -> Self {
        Self { of, rest: Vec::new(), left_out: 0 }
    }

    /// Prints a text and a new line as far as the reader takes it, or leaves it out if the reader is behind.
    pub(crate) fn print(&mut self, text: &str) {
        if self.is_ready() {
            self.queue(format!("{text}\n").as_bytes(), WAITING_BYTES);
        }
    }

    /// False, and counts a text as left out, if the reader is behind.
    pub(crate) fn is_ready(&mut self) -> bool {
        self.write_rest();
        let is_ready = !self.is_behind() && takes_more(&(self.of)());
        self.left_out += u64::from(!is_ready);
        is_ready
    }

    /// Prints lines behind those that wait, or leaves them out if that were more than `most` bytes.
    fn queue(&mut self, lines: &[u8], most: usize) {
        if self.is_behind() && self.rest.len() + lines.len() > most {
            self.left_out += 1;
            return;
        }
        self.rest.extend_from_slice(lines);
        above(|| self.write_rest());
    }

    /// True if the reader has not taken all.
    pub(crate) fn is_behind(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Writes on, as far as the reader takes it.
    pub(crate) fn write_rest(&mut self) {
        self.write_while(takes_more);
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

    /// Waits until the reader has all, or has taken nothing for as long as `patience`: other texts follow.
    pub(crate) fn finish(&mut self, patience: Option<Duration>) {
        let (mut left_bytes, mut since) = (self.rest.len(), Instant::now());
        while self.is_behind() && patience.is_none_or(|patience| since.elapsed() < patience) {
            self.write_while(|of| takes_more_within(of, patience));
            if self.rest.len() < left_bytes {
                (left_bytes, since) = (self.rest.len(), Instant::now());
            }
        }
    }

    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{self, Read};
    use std::sync::OnceLock;

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
    fn an_error_has_room_behind_the_notes_that_wait() {
        static PIPE: OnceLock<(io::PipeReader, io::PipeWriter)> = OnceLock::new();
        PIPE.set(io::pipe().unwrap()).unwrap();
        rustix::pipe::fcntl_setpipe_size(&PIPE.get().unwrap().1, PIECE_BYTES).unwrap();
        let mut stream = Stream::new(|| Box::new(&PIPE.get().unwrap().1));
        let note = [b'n'; 1000];
        (0..100).for_each(|_| stream.queue(&note, WAITING_BYTES));
        let waiting = stream.left_out();
        stream.queue(b"why the run ends\n", WAITING_BYTES + ERROR_BYTES);
        assert!(waiting > 0 && stream.left_out() == waiting && stream.rest.ends_with(b"ends\n"));
    }

    #[test]
    fn a_text_that_a_full_disk_keeps_out_is_counted() {
        let full = || Box::new(File::options().write(true).open("/dev/full").unwrap()) as Box<dyn AsFd>;
        let mut stream = Stream::new(full);
        stream.print("one");
        assert!(!stream.is_behind() && stream.left_out() == 1);
    }
}
