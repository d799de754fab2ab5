//! A network namespace with a pair of interfaces, and devices at both ends.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use wharf_core::device::{AnyDevice, Completions};
use wharf_core::pool::{Cache, PagePool};
use wharf_devices::open::{Direction, open};
use wharf_devices::pcap::format::PcapReader;
use wharf_mem::{Batch, Meta};
use wharf_sys::packet::PacketSocket;

/// Runs `body` in a network with the interfaces `va` and `vb`, connected and up, in a thread of its own.
pub fn with_pair(body: impl FnOnce() + Send + 'static) {
    super::common::within_a_minute(|| {
        if enter_with("va type veth peer name vb") {
            ip("link set va up");
            ip("link set vb up");
            body();
        }
    });
}

/// Runs `near` in a network with `va`, of address 10.9.0.1, and `far` at the same time in another with `vb`,
/// 10.9.0.2.
pub fn with_two(near: impl FnOnce() + Send + 'static, far: impl FnOnce() + Send + 'static) {
    super::common::within_a_minute(|| {
        if enter_with("va type veth peer name vb") {
            apart("va", "vb", near, far);
        }
    });
}

/// Runs `near` in this network, in which `ours` has address 10.9.0.1, and `far` in another, which `theirs` is
/// moved to, with 10.9.0.2.
pub fn apart(ours: &str, theirs: &str, near: impl FnOnce(), far: impl FnOnce() + Send + 'static) {
    let (say, hear) = mpsc::channel();
    let (moved, wait_until_moved) = mpsc::channel();
    let (up, wait_until_up) = mpsc::channel();
    let name = theirs.to_string();
    let far = std::thread::spawn(move || {
        assert!(enter());
        // PID/task/TID: the network of a thread is named by its number.
        say.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
        wait_until_moved.recv().unwrap();
        ip(&format!("addr add 10.9.0.2/24 dev {name}"));
        ip(&format!("link set {name} up"));
        up.send(()).unwrap();
        far();
    });
    let thread = hear.recv().unwrap();
    ip(&format!("link set {theirs} netns {}", thread.file_name().unwrap().to_str().unwrap()));
    ip(&format!("addr add 10.9.0.1/24 dev {ours}"));
    ip(&format!("link set {ours} up"));
    moved.send(()).unwrap();
    wait_until_up.recv().unwrap();
    near();
    far.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// Runs `body` in a network without interfaces, in a thread of its own.
pub fn with_net(body: impl FnOnce() + Send + 'static) {
    super::common::within_a_minute(|| {
        if enter() {
            body();
        }
    });
}

/// Enters a network of its own; false, having said why, where that cannot be.
pub fn enter() -> bool {
    if let Err(error) = wharf_sys::namespace::enter_new_network() {
        skip(&format!("no network namespace of its own: {error} (wants root)"));
        return false;
    }
    // No router solicitations in between: only what the test sends. This directory shows each thread its own
    // network.
    for name in ["all", "default"] {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
    }
    true
}

/// Enters a network of its own with the link `link`; false, having said why, where that cannot be.
pub fn enter_with(link: &str) -> bool {
    if !enter() {
        return false;
    }
    let made = Command::new("ip").args(["link", "add"]).args(link.split(' ')).status();
    let is_made = made.is_ok_and(|status| status.success());
    if !is_made {
        skip("`ip link add` failed: is iproute2 installed?");
    }
    is_made
}

pub fn skip(why: &str) {
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "skipped in CI: {why}");
    eprintln!("skipped: {why}");
}

/// Runs `ip` in the network of the calling thread.
pub fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

/// Waits until the kernel has seen to what became of the other end of `interface`: until then it has neither
/// noticed that the carrier is gone, nor sends again when it is back (`net/core/link_watch.c`).
pub fn wait_until(interface: &str, is_up: bool) {
    let is_so = || {
        let shown = Command::new("ip").args(["-o", "link", "show", interface]).output().unwrap();
        String::from_utf8_lossy(&shown.stdout).contains("state UP") == is_up
    };
    while !is_so() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// True if `program` is installed. Prints a line otherwise.
pub fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        skip(&format!("{program} is not installed"));
    }
    found.is_ok()
}

/// A device with memory, driven by hand.
pub struct End {
    pub device: AnyDevice,
    pub pool: PagePool,
    pub cache: Cache,
    pub batch: Batch,
    pub done: Completions,
}

impl End {
    pub fn new(spec: &str, direction: Direction, frame_bytes: u32) -> Self {
        // A process that another test is starting has all descriptors until it runs its program: those just
        // closed, too.
        let mut tries = 0;
        let mut again = |error: String, wanted: [&str; 2]| {
            tries += 1;
            assert!(tries < 1000 && wanted.iter().any(|wanted| error.contains(wanted)), "{error}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        };
        let mut device = loop {
            match open(spec, direction) {
                Ok(opened) => break opened.device,
                Err(error) => again(error.to_string(), ["it is in use"; 2]),
            }
        };
        let pool = super::common::pool_of(4096, frame_bytes);
        while let Err(error) = device.attach(pool.region().clone()) {
            again(error.to_string(), ["already", "in use by another"]);
        }
        let cache = pool.cache("test").unwrap();
        Self { device, pool, cache, batch: Batch::new(256), done: Completions::new(256) }
    }

    /// Frames that it is sending.
    pub fn outstanding(&self) -> usize {
        self.device.as_tx().map_or(0, |device| device.outstanding())
    }

    pub fn sender(spec: &str) -> Self {
        Self::new(spec, Direction::Send, 1984)
    }

    pub fn receiver(spec: &str) -> Self {
        Self::new(spec, Direction::Receive, 1984)
    }

    /// Adds a frame to the batch.
    pub fn offer(&mut self, bytes: &[u8]) {
        assert_eq!(self.cache.take(&mut self.batch, 1, bytes.len() as u32).unwrap(), 1);
        let frame = self.batch.frames_mut().last_mut().unwrap();
        self.pool.region().bytes_mut(frame).unwrap().copy_from_slice(bytes);
        self.batch.refresh();
    }

    /// Works like [`End::offer`], in as many buffers as it takes.
    pub fn offer_chain(&mut self, bytes: &[u8]) {
        self.offer_with(bytes, None);
    }

    /// Works like [`End::offer_chain`], with the requests of `meta`.
    pub fn offer_with(&mut self, bytes: &[u8], meta: Option<&Meta>) {
        let frame = super::common::packets::frame_of(&mut self.cache, bytes, usize::MAX, meta);
        self.batch.push(frame.expect("memory")).unwrap();
    }

    /// Transmits the offered frames and reaps until all have come back. Returns the number sent, and the reasons of
    /// the others.
    pub fn send_all(&mut self) -> (usize, Vec<&'static str>) {
        let (mut sent, mut failed) = (0, Vec::new());
        let until = Instant::now() + Duration::from_secs(10);
        while (!self.batch.is_empty() || self.outstanding() > 0) && Instant::now() < until {
            if !self.batch.is_empty() {
                self.device.tx_mut().unwrap().transmit(&mut self.batch, false);
            }
            let (one_sent, one_failed) = self.reap();
            sent += one_sent;
            failed.extend(one_failed);
        }
        assert_eq!((self.batch.len(), self.outstanding()), (0, 0), "stuck");
        (sent, failed)
    }

    pub fn reap(&mut self) -> (usize, Vec<&'static str>) {
        // Errors of the device are looked at by those tests that make some.
        let _ = self.device.tx_mut().unwrap().reap(256, false, &mut self.done);
        let sent = self.done.sent.len();
        self.cache.give(&mut self.done.sent).unwrap();
        let failed = self.done.failed.drain(..).map(|(frame, reason)| {
            self.cache.give_one(frame).unwrap();
            reason
        });
        (sent, failed.collect())
    }

    /// Receives until there are `count` frames, or for some seconds; all bytes of each.
    pub fn receive(&mut self, count: usize) -> Vec<Vec<u8>> {
        self.receive_within(count, Duration::from_secs(5))
    }

    pub fn receive_within(&mut self, count: usize, time: Duration) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let until = Instant::now() + time;
        // Once at least, should it not be run for so long.
        loop {
            self.device.rx_mut().unwrap().receive(&mut self.cache, &mut self.batch, 64).unwrap();
            let region = self.pool.region();
            let bytes = |frame| region.chunks(frame).unwrap().flatten().copied().collect::<Vec<u8>>();
            frames.extend(self.batch.frames().iter().map(bytes));
            self.cache.give(&mut self.batch).unwrap();
            if frames.len() >= count || Instant::now() >= until {
                return frames;
            }
        }
    }

    /// Everything is back.
    pub fn assert_all_home(&mut self) {
        assert_eq!(self.outstanding(), 0);
        self.cache.give(&mut self.batch).unwrap();
        let audit = self.pool.audit();
        assert_eq!(audit.out(), 0, "{audit}");
    }
}

/// An Ethernet frame of `len` bytes, no IP, number `number`.
pub fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
    bytes.extend(super::common::content(7, number, len - 14));
    bytes
}

/// Sends frames as they are, by a plain socket without rings.
pub fn send_raw<'a>(interface: &str, frames: impl IntoIterator<Item = &'a Vec<u8>>) {
    let socket = PacketSocket::open().unwrap();
    let index = socket.interface(interface).unwrap().index;
    socket.bind_to_send(index).unwrap();
    for bytes in frames {
        assert_eq!(socket.send(&[std::io::IoSlice::new(bytes)]).unwrap(), bytes.len());
    }
}

/// tcpdump on an interface, ready.
pub struct Tcpdump {
    child: Child,
    file: PathBuf,
}

impl Tcpdump {
    /// Captures `count` frames of those that come in at `interface`.
    pub fn start(interface: &str, count: usize, name: &str) -> Self {
        Self::start_with(interface, count, name, "-s2048")
    }

    /// Works like [`Tcpdump::start`], with all bytes of jumbo frames.
    pub fn start_whole(interface: &str, count: usize, name: &str) -> Self {
        Self::start_with(interface, count, name, "-s0")
    }

    fn start_with(interface: &str, count: usize, name: &str, length: &str) -> Self {
        let file = std::env::temp_dir().join(format!("wharf-packet-{name}-{}.pcap", std::process::id()));
        let mut child = Command::new("tcpdump")
            .args([
                "-Z",
                "root",
                "-n",
                length,
                "-B",
                "32768",
                "--immediate-mode",
                "-Q",
                "in",
                "-i",
                interface,
            ])
            .args(["-c", &count.to_string(), "-w"])
            .arg(&file)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = std::io::BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            assert!(std::io::BufRead::read_line(&mut said, &mut line).unwrap() > 0, "tcpdump ended");
        }
        // It goes on writing there.
        child.stderr = Some(said.into_inner());
        Self { child, file }
    }

    /// Waits until it has them all, and gives them.
    pub fn frames(mut self) -> Vec<Vec<u8>> {
        let until = Instant::now() + Duration::from_secs(10);
        while self.child.try_wait().unwrap().is_none() {
            if Instant::now() > until {
                self.child.kill().unwrap();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut reader = PcapReader::open(&self.file).unwrap();
        let (mut frames, mut bytes) = (Vec::new(), Vec::new());
        while let Ok(Some(_)) = reader.next(&mut bytes) {
            frames.push(bytes.clone());
        }
        frames
    }
}

impl Drop for Tcpdump {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.file);
    }
}
