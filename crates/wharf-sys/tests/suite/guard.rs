//! Files that shrink under a guard, and faults that are another handler's.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::ptr::null_mut;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use wharf_sys::guard::{GUARDS_MAX, Guard, install, is_installed};
use wharf_sys::mapping::{Mapping, PAGE_BYTES};
use wharf_sys::shared::Area;

/// Makes a memfd that can be truncated, and maps it.
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

fn truncate(fd: &OwnedFd, pages: usize) {
    // SAFETY: a plain call on a descriptor.
    assert_eq!(unsafe { libc::ftruncate(fd.as_raw_fd(), (pages * PAGE_BYTES) as libc::off_t) }, 0);
}

fn read(at: usize) -> u8 {
    // SAFETY: the tests read mapped addresses only.
    unsafe { (at as *const u8).read_volatile() }
}

fn write(at: usize, byte: u8) {
    // SAFETY: as above.
    unsafe { (at as *mut u8).write_volatile(byte) }
}

fn guard(addresses: &Range<usize>) -> Guard {
    install().unwrap();
    // SAFETY: a mapping of the test's own, unmapped only after the guard is dropped, to which there are no references.
    unsafe { Guard::new(addresses.clone()) }.unwrap()
}

/// Runs the test `name` of this file in a process of its own, with a word in its environment; `None` in that process.
fn in_a_process(name: &str) -> Option<Output> {
    const WORD: &str = "WHARF_TEST_FAULT";
    if std::env::var_os(WORD).is_some() {
        return None;
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", &format!("guard::{name}")]);
    Some(again.env(WORD, "1").output().unwrap())
}

#[test]
fn a_file_that_shrinks_reads_as_zeroes_and_other_mappings_stay() {
    let ((kept, kept_at), (cut, cut_at)) = (file(2), file(3));
    let (whole, broken) = (guard(&kept_at), guard(&cut_at));
    for at in [&kept_at, &cut_at] {
        write(at.start + 5, 77);
        write(at.end - 1, 78);
    }
    truncate(&cut, 1);
    assert_eq!(
        (read(cut_at.start + 5), broken.is_broken()),
        (77, false),
        "what is left of it is still there"
    );
    assert_eq!((read(cut_at.end - 1), broken.is_broken()), (0, true));
    write(cut_at.end - 1, 3);
    assert_eq!((read(cut_at.start + 5), read(cut_at.end - 1)), (0, 3), "private memory from now on");
    assert_eq!((read(kept_at.start + 5), read(kept_at.end - 1), whole.is_broken()), (77, 78, false));
    drop(kept);
}

#[test]
fn a_file_longer_than_memory_that_shrinks_reads_as_zeroes() {
    // AddressSanitizer has shadow memory beyond the limit on data below.
    if std::env::var_os("ASAN_OPTIONS").is_some() {
        return;
    }
    if let Some(output) = in_a_process("a_file_longer_than_memory_that_shrinks_reads_as_zeroes") {
        assert!(output.status.success(), "{output:?}");
        return;
    }
    // 1 TiB, of which no byte is ever stored; and a process that may not have much data of its own.
    let (fd, at) = file((1 << 40) / PAGE_BYTES);
    let (data, guard) = (libc::rlimit { rlim_cur: 256 << 20, rlim_max: 256 << 20 }, guard(&at));
    // SAFETY: a plain call on this process, which is the test's own.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_DATA, &raw const data) }, 0);
    truncate(&fd, 0);
    for page in (at.start..at.end).step_by(1 << 28) {
        write(page, 3);
        assert_eq!((read(page), read(page + 1)), (3, 0));
    }
    assert_eq!((read(at.end - 1), guard.is_broken()), (0, true));
}

#[test]
fn many_mappings_take_no_descriptor_each_and_share_no_page() {
    if let Some(output) = in_a_process("many_mappings_take_no_descriptor_each_and_share_no_page") {
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let few = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
    // SAFETY: a plain call on this process, which is the test's own.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const few) }, 0);
    let mut all: Vec<_> = (0..2000)
        .map(|_| {
            let (fd, at) = file(2);
            let guard = guard(&at);
            truncate(&fd, 0);
            (at, guard)
        })
        .collect();
    for (at, guard) in &all {
        assert_eq!((read(at.start), read(at.end - 1), guard.is_broken()), (0, 0, true));
        write(at.start, 7);
    }
    // The next user of these addresses finds nothing of it.
    let (at, guard) = all.swap_remove(1000);
    drop(guard);
    assert_eq!(read(at.start), 0);
    assert!(all.iter().all(|(at, _)| read(at.start) == 7));
}

#[test]
fn a_limit_on_files_leaves_mappings_guarded() {
    if let Some(output) = in_a_process("a_limit_on_files_leaves_mappings_guarded") {
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let short = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
    // SAFETY: a plain call on this process, which is the test's own.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const short) }, 0);
    let (fd, at) = file(2);
    let guard = guard(&at);
    truncate(&fd, 0);
    assert_eq!((read(at.start), guard.is_broken()), (0, true));
}

#[test]
fn many_threads_fault_at_once_while_guards_come_and_go() {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let (fd, at) = file(2);
                    let guard = guard(&at);
                    truncate(&fd, 0);
                    assert_eq!((read(at.start + 9), guard.is_broken()), (0, true));
                    drop(guard);
                    // SAFETY: this test's own, and not read any more.
                    unsafe { libc::munmap(at.start as *mut _, at.len()) };
                }
            });
        }
    });
}

#[test]
fn rows_are_used_again_and_an_unguarded_fault_ends_the_process() {
    if let Some(output) = in_a_process("rows_are_used_again_and_an_unguarded_fault_ends_the_process") {
        assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{output:?}");
        return;
    }
    for _ in 0..GUARDS_MAX + 1 {
        drop(guard(&file(1).1));
    }
    let (fd, at) = file(1);
    truncate(&fd, 0);
    read(at.start);
}

#[test]
fn without_the_handler_an_unsealed_file_is_refused() {
    if let Some(output) = in_a_process("without_the_handler_an_unsealed_file_is_refused") {
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let (fd, at) = file(1);
    let refused = Area::of_peer(fd.as_fd(), 1).unwrap_err();
    assert!(refused.kind() == io::ErrorKind::Unsupported && refused.to_string().contains("guard::install"));
    let sealed = Mapping::shared_small_pages(1).unwrap();
    assert!(!Area::of_peer(sealed.fd().unwrap(), 1).unwrap().is_broken());
    // SAFETY: as in `guard`.
    let error = unsafe { Guard::new(at.clone()) }.unwrap_err();
    assert_eq!((error.kind(), is_installed()), (io::ErrorKind::Unsupported, false));
    drop(guard(&at));
    assert!(is_installed());
}

#[test]
fn peers_files_leave_addresses_to_the_process() {
    // AddressSanitizer takes many of them.
    if std::env::var_os("ASAN_OPTIONS").is_some() {
        return;
    }
    install().unwrap();
    let len_bytes = 20 << 40;
    let (fd, _at) = file(len_bytes / PAGE_BYTES);
    let map = || Area::of_peer(fd.as_fd(), len_bytes as u64);
    let mut areas: Vec<_> = (0..3).map(|_| map().unwrap()).collect();
    let refused = map().unwrap_err();
    let words = "21990232555520 bytes besides 65970697666560 of all peers: 70368744177664 at most";
    assert!(refused.to_string().ends_with(words), "{refused}");
    areas.pop();
    assert!(map().is_ok());
}

const EXIT_OF_OTHER: libc::c_int = 42;
static FAULT_AT: AtomicUsize = AtomicUsize::new(0);

extern "C" fn other_with_info(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: `info` is the kernel's; _exit may be called in a handler.
    unsafe {
        let is_it = signal == libc::SIGBUS && (*info).si_addr() as usize == FAULT_AT.load(Relaxed);
        libc::_exit(if is_it { EXIT_OF_OTHER } else { 1 });
    }
}

extern "C" fn other_without_info(signal: libc::c_int) {
    // SAFETY: as above.
    unsafe { libc::_exit(if signal == libc::SIGBUS { EXIT_OF_OTHER } else { 1 }) };
}

/// Installs another handler, then ours; has one fault of each kind, the other handler's last.
fn fault_beside(handler: libc::sighandler_t, flags: libc::c_int) {
    // SAFETY: plain numbers; the handler is of the kind that the flags say.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        (action.sa_sigaction, action.sa_flags) = (handler, flags);
        assert_eq!(libc::sigaction(libc::SIGBUS, &raw const action, null_mut()), 0);
    }
    let ((ours, ours_at), (theirs, theirs_at)) = (file(1), file(1));
    let guard = guard(&ours_at);
    truncate(&ours, 0);
    truncate(&theirs, 0);
    assert_eq!((read(ours_at.start), guard.is_broken()), (0, true));
    FAULT_AT.store(theirs_at.start, Relaxed);
    read(theirs_at.start);
}

#[test]
fn a_handler_with_info_still_gets_its_faults() {
    match in_a_process("a_handler_with_info_still_gets_its_faults") {
        Some(output) => assert_eq!(output.status.code(), Some(EXIT_OF_OTHER), "{output:?}"),
        None => fault_beside(other_with_info as *const () as libc::sighandler_t, libc::SA_SIGINFO),
    }
}

#[test]
fn a_handler_without_info_still_gets_its_faults() {
    match in_a_process("a_handler_without_info_still_gets_its_faults") {
        Some(output) => assert_eq!(output.status.code(), Some(EXIT_OF_OTHER), "{output:?}"),
        None => fault_beside(other_without_info as *const () as libc::sighandler_t, 0),
    }
}

#[test]
fn a_sent_signal_ends_the_process_by_the_default_action() {
    if let Some(output) = in_a_process("a_sent_signal_ends_the_process_by_the_default_action") {
        assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{output:?}");
        return;
    }
    // SAFETY: plain calls. Rust's own handler, which would be the one before ours, would ignore the signal once.
    unsafe {
        libc::signal(libc::SIGBUS, libc::SIG_DFL);
        install().unwrap();
        libc::raise(libc::SIGBUS);
    }
}
