//! What becomes of memory that its owner takes away: a peer that makes a shared file shorter turns an access to it into
//! SIGBUS, which would end the process.
//!
//! Mappings of peers' files are listed here. The handler of that signal looks whether the address lies in one of them:
//! then it puts zeroed pages of our own in its place, all of it, marks it as broken, and lets the access go on. Whoever uses
//! the mapping looks at the mark now and then. Any other SIGBUS goes to whatever was there to handle it before.
//!
//! The list is a fixed table of atomics, so that the handler neither allocates nor waits. A row is written by who holds the
//! lock, between two steps of its version: odd while it is being written. The row that the handler is for is not being
//! written meanwhile, since its mapping lives as long as whoever accesses it; any other may be, and is passed over.

use std::io;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, fence};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Mappings that can be guarded at a time: 8 regions each of 64 peers.
pub const GUARDS_MAX: usize = 512;

struct Row {
    version: AtomicU32,
    start: AtomicUsize,
    /// The first address behind it; 0 for a free row.
    end: AtomicUsize,
    is_broken: AtomicBool,
}

static ROWS: [Row; GUARDS_MAX] = [const {
    Row {
        version: AtomicU32::new(0),
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        is_broken: AtomicBool::new(false),
    }
}; GUARDS_MAX];
/// Held by who writes a row.
static WRITER: Mutex<()> = Mutex::new(());
/// What was there to handle the signal before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

impl Row {
    fn write(&self, addresses: Range<usize>) {
        let version = self.version.load(Relaxed);
        self.version.store(version.wrapping_add(1), Relaxed);
        fence(Release);
        self.is_broken.store(false, Relaxed);
        self.start.store(addresses.start, Relaxed);
        self.end.store(addresses.end, Relaxed);
        self.version.store(version.wrapping_add(2), Release);
    }

    /// Its addresses; `None` while they are being written.
    fn addresses(&self) -> Option<Range<usize>> {
        let version = self.version.load(Acquire);
        let addresses = self.start.load(Relaxed)..self.end.load(Relaxed);
        fence(Acquire);
        (version & 1 == 0 && self.version.load(Relaxed) == version).then_some(addresses)
    }
}

/// A mapping that is guarded, from when this is made until it is dropped.
#[derive(Debug)]
pub struct Guard {
    row: usize,
}

impl Guard {
    /// Guards a mapping of whole pages at `addresses`.
    ///
    /// # Safety
    /// They are one mapping, or several, that the caller owns, which is made before and unmapped after this is dropped,
    /// and to which there are no references: its contents may change into zeroes at any access.
    ///
    /// # Errors
    /// The table is full; those of sigaction(2).
    pub unsafe fn new(addresses: Range<usize>) -> io::Result<Self> {
        let _writer = WRITER.lock().unwrap_or_else(PoisonError::into_inner);
        install()?;
        let row = ROWS.iter().position(|row| row.end.load(Relaxed) == 0);
        let row =
            row.ok_or_else(|| io::Error::other(format!("{GUARDS_MAX} peers' mappings are guarded already")))?;
        ROWS[row].write(addresses);
        Ok(Self { row })
    }

    /// Whether its file was taken away: since then it is zeroed memory of our own.
    #[inline]
    pub fn is_broken(&self) -> bool {
        ROWS[self.row].is_broken.load(Relaxed)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _writer = WRITER.lock().unwrap_or_else(PoisonError::into_inner);
        ROWS[self.row].write(0..0);
    }
}

/// Puts the handler in place, once; the caller has the lock.
fn install() -> io::Result<()> {
    if BEFORE.get().is_some() {
        return Ok(());
    }
    // SAFETY: an action is numbers throughout, and an empty set of signals zeroes.
    let (mut action, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_fault as *const () as libc::sighandler_t;
    // On the thread's other stack, where it has one: Rust's own handler wants that for stacks that overflow.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: both actions live as long as the calls. `on_fault` does what a handler may. What was there before is known
    // before ours can run.
    unsafe {
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) != 0 {
            return Err(io::Error::last_os_error());
        }
        let _ = BEFORE.set(before);
        if libc::sigaction(libc::SIGBUS, &raw const action, null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The handler: see the top of the file.
extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a valid one, and for SIGBUS by an access the address.
    let (address, code) = unsafe { ((*info).si_addr() as usize, (*info).si_code) };
    // Only what an access raised has an address, not what somebody sent.
    if code > 0 && mend(address) {
        return;
    }
    pass_on(signal, info, context);
}

/// Puts zeroed pages where the mapping at `address` was, if it is a guarded one; whether it did.
fn mend(address: usize) -> bool {
    let holds = |row: &&Row| row.addresses().is_some_and(|addresses| addresses.contains(&address));
    let Some((row, addresses)) = ROWS.iter().find(holds).and_then(|row| Some((row, row.addresses()?))) else {
        return false;
    };
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED);
    row.is_broken.store(true, Relaxed);
    // The thread may be between a call and its look at errno.
    // SAFETY: errno's place is the thread's own. The addresses are a mapping whose owner has agreed to this, and which
    // lives: the access under way is by somebody who keeps it mapped. mmap is but a system call.
    unsafe {
        let errno = libc::__errno_location();
        let saved = *errno;
        let mapped = libc::mmap(addresses.start as *mut _, addresses.len(), protection, flags, -1, 0);
        *errno = saved;
        mapped != libc::MAP_FAILED
    }
}

/// Leaves the signal to whatever was there before: where that is nothing, the access is made again, and ends the process.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let default = || {
        // SAFETY: plain calls; raising again matters where the signal was sent, and nothing would raise it again.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    };
    let Some(before) = BEFORE.get() else { return default() };
    match before.sa_sigaction {
        libc::SIG_DFL => default(),
        // To ignore a fault would be to make it for ever; the kernel does not, either.
        libc::SIG_IGN => default(),
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
            // SAFETY: whoever put it there said that it is such a function.
            let handler = unsafe { std::mem::transmute::<libc::sighandler_t, Handler>(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: as above, of the older kind.
            let handler =
                unsafe { std::mem::transmute::<libc::sighandler_t, extern "C" fn(libc::c_int)>(handler) };
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::PAGE_BYTES;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    /// A memfd that can be shrunk, and where it is mapped.
    fn file(pages: usize) -> (OwnedFd, Range<usize>) {
        let len = pages * PAGE_BYTES;
        // SAFETY: a new descriptor, and a new mapping of all of it.
        unsafe {
            let fd = OwnedFd::from_raw_fd(libc::memfd_create(c"test".as_ptr(), 0));
            assert_eq!(libc::ftruncate(fd.as_raw_fd(), len as libc::off_t), 0);
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let start = libc::mmap(null_mut(), len, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0);
            assert_ne!(start, libc::MAP_FAILED);
            (fd, start as usize..start as usize + len)
        }
    }

    fn read(at: usize) -> u8 {
        // SAFETY: all that the tests read is mapped.
        unsafe { (at as *const u8).read_volatile() }
    }

    fn write(at: usize, byte: u8) {
        // SAFETY: as above.
        unsafe { (at as *mut u8).write_volatile(byte) }
    }

    #[test]
    fn a_file_that_shrinks_turns_into_zeroes_and_the_others_stay() {
        let ((kept, kept_at), (cut, cut_at)) = (file(2), file(3));
        // SAFETY: mappings of this test's own, which are never unmapped.
        let (whole, broken) =
            unsafe { (Guard::new(kept_at.clone()).unwrap(), Guard::new(cut_at.clone()).unwrap()) };
        for at in [&kept_at, &cut_at] {
            write(at.start + 5, 77);
            write(at.end - 1, 78);
        }
        // SAFETY: a plain call.
        assert_eq!(unsafe { libc::ftruncate(cut.as_raw_fd(), PAGE_BYTES as libc::off_t) }, 0);
        assert_eq!(
            (read(cut_at.start + 5), broken.is_broken()),
            (77, false),
            "what is left of it is still there"
        );
        assert_eq!((read(cut_at.end - 1), broken.is_broken()), (0, true));
        write(cut_at.end - 1, 3);
        assert_eq!((read(cut_at.start + 5), read(cut_at.end - 1)), (0, 3), "memory of our own from now on");
        assert_eq!((read(kept_at.start + 5), read(kept_at.end - 1), whole.is_broken()), (77, 78, false));
        drop(kept);
    }

    #[test]
    fn many_threads_may_fault_at_once_while_others_come_and_go() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let (fd, at) = file(2);
                        // SAFETY: unmapped only below, behind the guard.
                        let guard = unsafe { Guard::new(at.clone()).unwrap() };
                        // SAFETY: a plain call.
                        assert_eq!(unsafe { libc::ftruncate(fd.as_raw_fd(), 0) }, 0);
                        assert_eq!((read(at.start + 9), guard.is_broken()), (0, true));
                        drop(guard);
                        // SAFETY: this test's own, and nobody reads it any more.
                        unsafe { libc::munmap(at.start as *mut _, at.len()) };
                    }
                });
            }
        });
    }

    #[test]
    fn a_row_is_used_again_and_an_unguarded_fault_still_ends_the_process() {
        // A process of its own: this test again, with a word in its environment.
        const WORD: &str = "WHARF_TEST_FAULT";
        if std::env::var_os(WORD).is_none() {
            let name = "guard::tests::a_row_is_used_again_and_an_unguarded_fault_still_ends_the_process";
            let mut again = std::process::Command::new(std::env::current_exe().unwrap());
            let output = again.args(["--exact", name]).env(WORD, "1").output().unwrap();
            use std::os::unix::process::ExitStatusExt;
            assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{output:?}");
            return;
        }
        for _ in 0..2 * GUARDS_MAX {
            let (_, at) = file(1);
            // SAFETY: never unmapped.
            drop(unsafe { Guard::new(at) }.unwrap());
        }
        let (fd, at) = file(1);
        // SAFETY: a plain call.
        unsafe { libc::ftruncate(fd.as_raw_fd(), 0) };
        read(at.start);
    }
}
