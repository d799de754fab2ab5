//! A sender's thread is stopped between any two instructions, by ptrace(2), as SIGSTOP or a low priority may stop it: the other
//! sender goes on meanwhile. `WHARF_STOPS=20000 cargo test --release -p wharf --test suite stopped` covers whole calls.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;
use wharf::Owners;
use wharf::qdisc::{Fifo, FifoLimit};
use wharf::{Burst, Direction, Port, Sender};
use wharf_testkit::threads::within;

const CHILD: &str = "WHARF_STOPPED_CHILD";
/// Sends of the other sender that must end while the first one is stopped; one of them may have begun before.
const SENDS: u64 = 8;
/// Sends of each sender before the first one is stopped.
const WARM_UP: u32 = 500;
/// The bound of a test that hangs otherwise; no measure of speed.
const HANGS: Duration = Duration::from_secs(10);

/// The allocator of this binary. In the process of the two senders it takes no lock, and leaks: the system's
/// has locks, and a thread that waits allocates.
struct Leaky<const BYTES: usize> {
    leaks: AtomicBool,
    used: AtomicUsize,
    region: UnsafeCell<[u8; BYTES]>,
}

#[global_allocator]
static ALLOCATOR: Leaky<{ 512 << 20 }> = Leaky {
    leaks: AtomicBool::new(false),
    used: AtomicUsize::new(0),
    region: UnsafeCell::new([0; 512 << 20]),
};

// SAFETY: no reference to the region is made, and each part of it is handed out once.
unsafe impl<const BYTES: usize> Sync for Leaky<BYTES> {}

// SAFETY: a part of the region is aligned, and of the layout's size; else the system's allocator answers.
unsafe impl<const BYTES: usize> GlobalAlloc for Leaky<BYTES> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !self.leaks.load(Relaxed) {
            // SAFETY: the caller's own layout.
            return unsafe { System.alloc(layout) };
        }
        let most = layout.size() + layout.align();
        let start = self.used.fetch_add(most, Relaxed);
        if start + most > BYTES {
            return std::ptr::null_mut();
        }
        let start = self.region.get().cast::<u8>().wrapping_add(start);
        start.wrapping_add(start.align_offset(layout.align()))
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if !self.leaks.load(Relaxed) {
            // SAFETY: nothing has come from the region yet.
            unsafe { System.dealloc(memory, layout) }
        }
    }
}

/// The process of the two senders. A test only so that it is in this binary: it returns at once otherwise.
#[test]
fn child() {
    let Ok(owners) = std::env::var(CHILD) else { return };
    ALLOCATOR.leaks.store(true, SeqCst);
    let owners = if owners == "auto" { Owners::Auto } else { Owners::Poller { cpu: None } };
    // So little room that senders wait for it. (Memory must not be short: the pool has a lock.)
    let fifo = Fifo::new(FifoLimit::Packets(64));
    let path = Port::builder("udp:127.0.0.1:9", Direction::Send).qdisc(fifo).owners(owners);
    let path = path.build().unwrap();
    let [mut first, mut second] = ["first", "second"].map(|name| path.sender(name).unwrap());
    // Then both caches have all that they use, so that neither takes the lock of the pool's depot any more.
    let is_ready = &Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut burst = first.burst(16);
            (0..WARM_UP).for_each(|_| send(&mut first, &mut burst));
            is_ready.wait();
            // SAFETY: a plain call.
            println!("\nthread {}", unsafe { libc::gettid() });
            loop {
                send(&mut first, &mut burst);
            }
        });
        scope.spawn(move || {
            let mut burst = second.burst(16);
            (0..WARM_UP).for_each(|_| send(&mut second, &mut burst));
            is_ready.wait();
            loop {
                send(&mut second, &mut burst);
                std::io::stderr().write_all(b".").unwrap();
            }
        });
    });
}

fn send(sender: &mut Sender, burst: &mut Burst) {
    sender.fill(burst, 16, 100, HANGS).unwrap();
    for packet in burst.iter_mut() {
        packet.fill(0);
        packet[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0]);
        packet[16..18].copy_from_slice(&86u16.to_be_bytes());
        packet[22..24].copy_from_slice(&[64, 17]);
        packet[38..40].copy_from_slice(&66u16.to_be_bytes());
    }
    while sender.send(burst, HANGS).is_err() {}
}

/// A thread of another process, stopped.
struct Stopped(i32);

impl Stopped {
    fn new(thread: i32) -> Self {
        // SAFETY: plain calls on a thread of a child process.
        unsafe {
            assert_eq!(
                libc::ptrace(libc::PTRACE_SEIZE, thread, 0, 0),
                0,
                "{}",
                std::io::Error::last_os_error()
            );
            assert_eq!(libc::ptrace(libc::PTRACE_INTERRUPT, thread, 0, 0), 0);
        }
        let stopped = Self(thread);
        stopped.wait();
        stopped
    }

    fn wait(&self) {
        let mut status = 0;
        // SAFETY: the kernel writes one number.
        assert_eq!(unsafe { libc::waitpid(self.0, &raw mut status, libc::__WALL) }, self.0);
        assert!(libc::WIFSTOPPED(status), "the thread has ended: {status:x}");
    }

    /// Lets it execute one instruction; a system call ends first.
    fn step(&self) {
        // SAFETY: a plain call on a stopped thread.
        assert_eq!(unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, self.0, 0, 0) }, 0);
        self.wait();
    }
}

impl Stopped {
    /// Waits for its end, which its process waits for.
    fn end(self) {
        // SAFETY: as in `wait`, without a number.
        unsafe { libc::waitpid(self.0, std::ptr::null_mut(), libc::__WALL) };
    }
}

fn start(owners: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["stopped::child", "--exact", "--nocapture"])
        .env(CHILD, owners)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn thread_of(child: &mut Child) -> i32 {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut threads = lines.filter_map(|line| line.strip_prefix("thread ")?.parse().ok());
    threads.next().expect("the child tells its thread")
}

/// Counts the second sender's sends.
fn count(child: &mut Child) -> Arc<AtomicU64> {
    let (sent, mut progress) = (Arc::new(AtomicU64::new(0)), child.stderr.take().unwrap());
    let counts = sent.clone();
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = progress.read(&mut bytes) {
            counts.fetch_add(count as u64, SeqCst);
        }
    });
    sent
}

/// Stops the first sender `stops` times, each time some instructions later. Returns the number of stops in which the second
/// one did not go on.
fn held_up(owners: &str, stops: u64) -> u64 {
    let mut child = start(owners);
    let sent = count(&mut child);
    let stopped = Stopped::new(thread_of(&mut child));
    let (mut held_up, mut seed) = (0, 1u64);
    for _ in 0..stops {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (0..=(seed >> 58)).for_each(|_| stopped.step());
        let before = sent.load(SeqCst);
        if !within(HANGS, || sent.load(SeqCst) >= before + SENDS) {
            held_up += 1;
            eprintln!("{owners}: held up while thread {} of {} is stopped", stopped.0, child.id());
            if std::env::var("WHARF_STOPS_DEBUG").is_ok() {
                thread::sleep(Duration::from_secs(1000));
            }
        }
    }
    child.kill().unwrap();
    stopped.end();
    _ = child.wait();
    held_up
}

#[test]
fn the_other_sender_goes_on() {
    let stops = std::env::var("WHARF_STOPS").map_or(300, |stops| stops.parse().unwrap());
    for owners in ["poller", "auto"] {
        assert_eq!(held_up(owners, stops), 0, "{owners}: of {stops}");
    }
}
