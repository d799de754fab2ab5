//! The guard of mappings of a peer's file: a peer that truncates its file turns the next access to it into `SIGBUS`,
//! which ends the process by default.
//!
//! [`install`] puts a handler for that signal in place, for the whole process and for good. A program asks for it
//! explicitly; nothing in Wharf's libraries does. Without it, only files that their owner cannot truncate
//! (`F_SEAL_SHRINK`) are mapped.
//!
//! Mappings of peers' files are listed in a table. Where the faulting address lies in one of them, the handler
//! maps a spare over all of that mapping: an empty file of this process's own, at the offset of the mapping's
//! address, so that no two share pages. It marks the mapping as broken, and returns: the access is made again,
//! and finds zeroes. The mapping's user checks the mark from time to time. The handler passes every other `SIGBUS`
//! on to the action that was in place before it.
//!
//! The kernel may refuse private memory of that length, by its overcommit rules or a limit on data. It charges for a
//! shared mapping of a file page by page, as pages are touched.
//!
//! The table is of fixed size and of atomics: the handler neither allocates nor waits. A writer holds a lock and makes
//! the row's version odd while it writes the row. The row of the faulting mapping is not being written, since a
//! mapping lives as long as its accesses; the handler skips a row that is being written.

use crate::call::check;
use crate::mapping::memfd;
use rustix::fs::MemfdFlags;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, fence};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Most mappings that are guarded at a time: as many as 32 peers have that share 509 regions each.
pub const GUARDS_MAX: usize = 16_384;
/// Bytes of the spare, of which few are stored: more than there are addresses.
const SPARE_BYTES: usize = 1 << 56;

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
/// Held while a row is written, and while the handler is installed.
static WRITER: Mutex<()> = Mutex::new(());
/// Pages for mappings that are broken; `None` under a limit on files. Then each takes memory without a file.
static SPARE: OnceLock<Option<OwnedFd>> = OnceLock::new();
/// The signal's action before `install`; set once the handler is in place, or about to be.
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

    fn addresses(&self) -> Range<usize> {
        self.start.load(Relaxed)..self.end.load(Relaxed)
    }

    /// Returns the row's addresses if it has `address`, and is not being written.
    fn of(&self, address: usize) -> Option<Range<usize>> {
        let version = self.version.load(Acquire);
        let addresses = self.addresses();
        fence(Acquire);
        let is_whole = version & 1 == 0 && self.version.load(Relaxed) == version;
        (is_whole && addresses.contains(&address)).then_some(addresses)
    }
}

/// A guarded mapping, until this is dropped.
#[derive(Debug)]
pub struct Guard {
    row: usize,
}

impl Guard {
    /// Guards the mapping of whole pages at `addresses`.
    ///
    /// # Safety
    /// The addresses are one or several mappings that the caller owns. They are mapped before this call and unmapped
    /// after the guard is dropped. There are no references to their contents: any access may turn them into zeroes.
    ///
    /// # Errors
    /// `Unsupported` without [`install`]; `Other` when [`GUARDS_MAX`] mappings are guarded.
    pub unsafe fn new(addresses: Range<usize>) -> io::Result<Self> {
        let _writer = writer();
        if !is_installed() {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        let row = ROWS.iter().position(|row| row.end.load(Relaxed) == 0);
        let row =
            row.ok_or_else(|| io::Error::other(format!("{GUARDS_MAX} peers' mappings are guarded already")))?;
        SPARE.get_or_init(|| memfd(MemfdFlags::empty(), SPARE_BYTES).ok());
        ROWS[row].write(addresses);
        Ok(Self { row })
    }

    /// True if the file was truncated: from then on the mapping is that of zeroes, which no peer has.
    #[inline]
    pub fn is_broken(&self) -> bool {
        ROWS[self.row].is_broken.load(Relaxed)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let (_writer, row) = (writer(), &ROWS[self.row]);
        if self.is_broken() {
            let addresses = row.addresses();
            // SAFETY: a mapping of the spare, which lives (`Guard::new`) and is not used any more. Its pages are given
            // back, so that the next mapping of these addresses does not find their contents.
            unsafe { libc::madvise(addresses.start as *mut _, addresses.len(), libc::MADV_REMOVE) };
        }
        row.write(0..0);
    }
}

fn writer() -> MutexGuard<'static, ()> {
    WRITER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True if [`install`] has put the handler in place.
pub fn is_installed() -> bool {
    BEFORE.get().is_some()
}

/// Installs the process's `SIGBUS` handler, once and for good; further calls do nothing.
///
/// The handler deals with faults in mappings of peers' files only (the module's text says how). Any other `SIGBUS` goes to
/// the action that was in place before: a handler of either kind (`sa_sigaction`, `sa_handler`) is called as the
/// kernel would call it, with this handler's signal mask; `SIG_DFL` and `SIG_IGN` end the process, as the
/// kernel does for a fault. A program that installs a handler of its own later must pass on what it does not know, as
/// this one does: otherwise a truncating peer ends the process.
///
/// # Errors
/// Those of `sigaction(2)`.
pub fn install() -> io::Result<()> {
    let _writer = writer();
    if is_installed() {
        return Ok(());
    }
    // SAFETY: an action is plain numbers, and an empty set of signals zeroes.
    let (mut action, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_fault as *const () as libc::sighandler_t;
    // On the thread's alternate stack, where it has one: Rust's own handler wants that for stack overflows.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: both actions live as long as the calls. `on_fault` calls only what a handler may call. `BEFORE` is set before
    // the handler can run.
    unsafe {
        check(libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before))?;
        let _ = BEFORE.set(before);
        check(libc::sigaction(libc::SIGBUS, &raw const action, null_mut())).map(drop)
    }
}

/// The handler: see the module's text.
extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a valid `info`, and for a SIGBUS by an access the address.
    let (address, code) = unsafe { ((*info).si_addr() as usize, (*info).si_code) };
    // A signal sent by a process has a code of 0 or less, and no address.
    if code > 0 && mend(address) {
        return;
    }
    pass_on(signal, info, context);
}

/// Maps its spare over the guarded mapping that has `address`, and returns true if there is one.
fn mend(address: usize) -> bool {
    let Some((row, addresses)) = ROWS.iter().find_map(|row| Some((row, row.of(address)?))) else {
        return false;
    };
    let (spare, kind) = match SPARE.get() {
        Some(Some(spare)) => (spare.as_raw_fd(), 0),
        _ => (-1, libc::MAP_ANONYMOUS | libc::MAP_NORESERVE),
    };
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED | kind);
    let at = addresses.start as libc::off_t;
    row.is_broken.store(true, Relaxed);
    // The thread may be between a system call and its look at errno.
    // SAFETY: errno's place is the thread's own. The addresses are a mapping whose owner has agreed to this
    // (`Guard::new`), and which lives: its user is in the middle of an access. mmap is but a system call.
    unsafe {
        let errno = libc::__errno_location();
        let saved = *errno;
        let mapped = libc::mmap(addresses.start as *mut _, addresses.len(), protection, flags, spare, at);
        *errno = saved;
        mapped != libc::MAP_FAILED
    }
}

/// Passes the signal on to the action before `install`. The default action ends the process: for a fault when the access
/// is made again, for a sent signal by raising it again.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let default = || {
        // SAFETY: plain calls.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    };
    let Some(before) = BEFORE.get() else { return default() };
    // SAFETY: the kernel passes a valid record with `SA_SIGINFO`.
    let is_sent = unsafe { (*info).si_code } <= 0;
    match before.sa_sigaction {
        // By kill(2) and the like, to a process that ignored it.
        libc::SIG_IGN if is_sent => {}
        // An ignored fault would be made again for ever; the kernel does not ignore it, either.
        libc::SIG_DFL | libc::SIG_IGN => default(),
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
            // SAFETY: its installer told the kernel that it is such a function.
            let handler = unsafe { std::mem::transmute::<libc::sighandler_t, Handler>(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: as above, with one argument.
            let handler =
                unsafe { std::mem::transmute::<libc::sighandler_t, extern "C" fn(libc::c_int)>(handler) };
            handler(signal);
        }
    }
}
