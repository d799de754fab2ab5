//! A network namespace with a pair of interfaces. Wants root and `ip`, and fails without: its tests are
//! `#[ignore = "wants root"]`, and `./test interfaces` runs them.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use wharf_devices::pcap::format::PcapReader;
use wharf_sys::interface::Interface;
use wharf_sys::packet::PacketSocket;
use wharf_testkit::content::content;
use wharf_testkit::threads::{eventually, within_a_minute};

/// Runs `body` in a network with the interfaces `va` and `vb`, connected and up, in a thread of its own.
pub fn with_pair(body: impl FnOnce() + Send + 'static) {
    within_a_minute(|| {
        enter_with("va type veth peer name vb");
        ip("link set va up");
        ip("link set vb up");
        body();
    });
}

/// Runs `near` in a network with `va`, of address 10.9.0.1, and `far` at the same time in another with `vb`,
/// 10.9.0.2.
pub fn with_two(near: impl FnOnce() + Send + 'static, far: impl FnOnce() + Send + 'static) {
    within_a_minute(|| {
        enter_with("va type veth peer name vb");
        apart("va", "vb", near, far);
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
        enter();
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
    within_a_minute(|| {
        enter();
        body();
    });
}

/// Enters a network of its own.
pub fn enter() {
    if let Err(error) = wharf_sys::namespace::enter_new_network() {
        panic!("no network namespace of its own: {error} (wants root)");
    }
    // No router solicitations in between: only what the test sends. This directory shows each thread its own
    // network.
    for name in ["all", "default"] {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
    }
}

/// Enters a network of its own with the link `link`.
pub fn enter_with(link: &str) {
    enter();
    ip(&format!("link add {link}"));
}

/// Runs `ip` in the network of the calling thread.
pub fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("wants `ip`");
    assert!(status.success(), "ip {arguments}");
}

/// Waits until the kernel has seen to what became of the other end of `interface`: until then it has neither
/// noticed that the carrier is gone, nor sends again when it is back (`net/core/link_watch.c`).
pub fn wait_until(interface: &str, is_up: bool) {
    let is_so = || {
        let shown = Command::new("ip").args(["-o", "link", "show", interface]).output().unwrap();
        String::from_utf8_lossy(&shown.stdout).contains("state UP") == is_up
    };
    eventually(Duration::from_secs(50), is_so);
}

/// An Ethernet frame of `len` bytes, no IP, number `number`.
pub fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
    bytes.extend(content(7, number, len - 14));
    bytes
}

/// Sends frames as they are, by a plain socket without rings.
pub fn send_raw<'a>(interface: &str, frames: impl IntoIterator<Item = &'a Vec<u8>>) {
    let socket = PacketSocket::open().unwrap();
    let index = Interface::find(socket.fd(), interface).unwrap().index;
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
            .expect("wants tcpdump");
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
        eventually(Duration::from_secs(20), || {
            let has_ended = self.child.try_wait().unwrap().is_some();
            if !has_ended && Instant::now() > until {
                self.child.kill().unwrap();
            }
            has_ended
        });
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
