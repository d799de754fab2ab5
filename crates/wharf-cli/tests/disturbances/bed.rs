//! `Bed`: a path in a network of its own, its far end, and what a disturbance does to them.

use crate::common::{Folder, text};
use crate::far::Far;
use crate::kind::{Device, Kind, Packet, Tap, Udp, VhostUser, VirtioUser, Xdp};
use crate::load::Load;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wharf::{Direction, Port};
use wharf::{Owners, PortBuilder};
use wharf_core::random::SplitMix64;

/// Time without a completion that is a stall, where a stall is the disturbance.
const STALL_AFTER: Duration = Duration::from_millis(200);
/// A wait that a fault alone makes this long.
pub const LONG: Duration = Duration::from_secs(10);

/// A process that ends with this value.
pub struct Process(Child);

impl Process {
    pub fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: a plain call, on a child that was not waited for.
        assert_eq!(unsafe { libc::kill(self.0.id() as i32, signal) }, 0);
    }

    pub fn wait(mut self) {
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until `is_so`, up to `time`. Returns the time that it took, if it came so.
pub fn wait_until(time: Duration, mut is_so: impl FnMut() -> bool) -> Option<Duration> {
    let began = Instant::now();
    loop {
        match (is_so(), began.elapsed()) {
            (true, took) => return Some(took),
            (false, took) if took > time => return None,
            _ => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

pub struct Bed {
    pub device: Device,
    pub random: SplitMix64,
    pub path: Port,
    pub far: Far,
    pub load: Load,
    pub peer: Option<Process>,
    /// Processes that live as long as the run.
    pub others: Vec<Process>,
    folder: Folder,
    /// A stall is the disturbance.
    stalls: bool,
}

impl Bed {
    /// Makes a network, opens the device and its far end, and starts the senders.
    pub fn new(kind: &Kind, device: Device, seed: u64) -> Self {
        wharf_sys::namespace::enter_new_network().expect("wants root");
        for name in ["all", "default"] {
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        }
        let (folder, mut random) = (Folder::new(), SplitMix64::new(seed));
        make_network(device);
        let (mut spec, direction) = (spec(device, &folder), Direction::Send);
        let is_both = !matches!(device, Packet | Udp) && random.below(2) == 0;
        let direction = if is_both { Direction::Both } else { direction };
        if device == VirtioUser {
            spec += [",reconnect=off", ",reconnect=on", ",packed=on"][random.below(3) as usize];
        }
        // A driver connects to a back end that listens.
        let mut peer = (device == VirtioUser).then(|| start_peer(device, &folder, ""));
        if peer.is_some() {
            wait_until(LONG, || folder.path("socket").exists()).expect("the back end listens");
        }
        let owners = [Owners::Auto, Owners::Senders, Owners::Poller { cpu: None }][random.below(3) as usize];
        let path = open(kind, Port::builder(&spec, direction).owners(owners).takes_chains(true));
        if is_both {
            path.on_receive(|_| wharf::queue::Rest::Free).unwrap();
        }
        if device == VhostUser {
            peer = Some(start_peer(device, &folder, ""));
        }
        eprintln!("{}/{} seed {seed}: {spec}, {direction:?}, {owners:?}", device.name(), kind.name);
        let far = Far::new(device);
        let load = Load::start(&path, seed);
        Self { device, random, path, far, load, peer, others: Vec::new(), folder, stalls: kind.has_stalls() }
    }

    /// Returns a time by chance, from `from_ms` to `to_ms` - 1.
    pub fn time(&mut self, from_ms: u64, to_ms: u64) -> Duration {
        Duration::from_millis(from_ms + self.random.below(to_ms - from_ms))
    }

    pub fn sent(&self) -> u64 {
        self.path.queue().unwrap().counters().sent.get()
    }

    /// Names of the near and the far interface.
    pub fn near(&self) -> &'static str {
        match self.device {
            Tap => "t0",
            Udp => "lo",
            _ => "va",
        }
    }

    /// Lets the disturbance last; a stall until it is one.
    pub fn hold(&mut self) {
        let stall = if self.stalls { STALL_AFTER } else { Duration::ZERO };
        let time = self.time(50, 300);
        std::thread::sleep(stall + time);
    }

    /// Runs a command, in which NEAR is the device's interface. Returns true if it succeeded.
    pub fn tries(&self, command: &str) -> bool {
        // SAFETY: a plain call.
        let thread = unsafe { libc::gettid() }.to_string();
        let outside = self.others.first().map(|other| other.id().to_string()).unwrap_or_default();
        let command =
            command.replace("NEAR", self.near()).replace("THREAD", &thread).replace("OUTSIDE", &outside);
        let words: Vec<&str> = command.split(' ').collect();
        Command::new(words[0]).args(&words[1..]).stderr(Stdio::null()).status().unwrap().success()
    }

    pub fn run(&self, command: &str) {
        assert!(self.tries(command), "{command}");
    }

    /// Runs a command, lets its effect last, and runs its opposite.
    pub fn for_a_while(&mut self, begin: &str, end: &str) {
        self.run(begin);
        self.hold();
        self.run(end);
    }

    /// Makes the pair of interfaces.
    pub fn make_pair(&self, queues: &str) {
        self.run(&format!("ip link add va{queues} type veth peer name vb{queues}"));
        self.run("ip link set va up");
        self.run("ip link set vb up");
    }

    /// Starts another network, whose process is OUTSIDE in commands.
    pub fn open_outside(&mut self) {
        let outside = Process::start(Command::new("unshare").args(["--net", "sleep", "60"]));
        let own = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let theirs = format!("/proc/{}/ns/net", outside.id());
        let is_there = || std::fs::read_link(&theirs).is_ok_and(|theirs| theirs != own);
        wait_until(LONG, is_there).expect("another network");
        self.others.insert(0, outside);
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path("socket")
    }

    pub fn start_peer(&mut self, options: &str) {
        self.peer = Some(start_peer(self.device, &self.folder, options));
    }
}

fn open(kind: &Kind, mut builder: PortBuilder) -> Port {
    builder = builder.on_gone(kind.on_gone).on_stall(kind.on_stall);
    if kind.has_stalls() {
        builder = builder.stall_after(STALL_AFTER);
    }
    let text = format!("{builder:?}");
    builder.build().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn make_network(device: Device) {
    let ip =
        |arguments: &str| assert!(Command::new("ip").args(arguments.split(' ')).status().unwrap().success());
    match device {
        Packet | Xdp => {
            ip("link add va type veth peer name vb");
            ip("link set va up");
            ip("link set vb up");
        }
        Udp => {
            ip("link set lo up");
            ip("addr add 10.9.0.2/32 dev lo");
        }
        _ => {}
    }
}

fn spec(device: Device, folder: &Folder) -> String {
    let socket = text(&folder.path("socket"));
    match device {
        Packet => "packet:va".into(),
        Xdp => "xdp:va".into(),
        Tap => "tap:t0,sndbuf=64k".into(),
        Udp => "udp:10.9.0.2:9000".into(),
        VhostUser => format!("vhost-user:{socket}"),
        VirtioUser => format!("virtio-user:{socket}"),
    }
}

/// Starts a process that drops what arrives at the other side of the device's socket.
fn start_peer(device: Device, folder: &Folder, options: &str) -> Process {
    let kind = if device == VhostUser { "virtio-user" } else { "vhost-user" };
    let from = format!("{kind}:{}{options}", text(&folder.path("socket")));
    let forward = ["forward", "--seconds", "60", &from, "null"];
    Process::start(Command::new(env!("CARGO_BIN_EXE_wharf")).args(forward))
}
