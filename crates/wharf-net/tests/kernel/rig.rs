//! A network namespace with its neighbours, made by a script of `ip` commands.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// Repeats a question until the answer is yes. Returns the time that it took.
#[track_caller]
pub fn eventually(what: &str, mut is: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !is() {
        assert!(started.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    started.elapsed()
}

/// Two namespaces, `$A` and `$B`, wired by two veth pairs: `a1` to `b1`, `a2` to `b2`. The thread is in `$A`.
pub struct Rig {
    pub name: String,
}

const WIRES: &str = "
for n in $A $B; do ip netns del $n 2>/dev/null; ip netns add $n; ip -n $n link set lo up; done
for i in 1 2; do
  ip -n $A link add a$i type veth peer name b$i netns $B
  ip -n $A link set a$i address 02:00:00:00:0a:0$i; ip -n $B link set b$i address 02:00:00:00:0b:0$i
  ip -n $A link set a$i up; ip -n $B link set b$i up
  ip -n $A addr add 10.$i.0.1/24 brd + dev a$i; ip -n $B addr add 10.$i.0.2/24 dev b$i
  ip -n $A addr add fd0$i::1/64 dev a$i nodad; ip -n $B addr add fd0$i::2/64 dev b$i nodad
  ip -n $A addr add fe80::a:$i/64 dev a$i nodad; ip -n $B addr add fe80::b:$i/64 dev b$i nodad
  ip -n $A neigh add 10.$i.0.2 lladdr 02:00:00:00:0b:0$i dev a$i nud permanent
  ip -n $A neigh add fe80::b:$i lladdr 02:00:00:00:0b:0$i dev a$i nud permanent
done
";

impl Rig {
    /// Makes the namespaces. `None` if this kernel has no such interfaces.
    pub fn new(name: &str, script: &str) -> Option<Self> {
        // Another run of the tests beside this one has its own.
        let rig = Self { name: format!("wharf-net-{name}-{}", std::process::id()) };
        let made = rig.shell(&format!("{WIRES}\nset -e\n{script}"));
        let said = String::from_utf8_lossy(&made.stderr);
        if said.contains("Unknown device type") {
            eprintln!("{name}: skipped, this kernel has no such interfaces");
            return None;
        }
        assert!(made.status.success(), "{name}: {said}");
        let namespace = File::open(format!("/run/netns/{}", rig.name)).expect("a namespace");
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).expect("root");
        Some(rig)
    }

    /// Runs a script of `sh`, with `$A` and `$B`.
    pub fn shell(&self, script: &str) -> Output {
        let b = format!("{}-b", self.name);
        // A guest's shell prefers its own `ip`.
        let script = &format!("if [ -n \"$IP\" ]; then ip() {{ \"$IP\" \"$@\"; }}; fi\n{script}");
        Command::new("sh").args(["-c", script]).env("A", &self.name).env("B", b).output().expect("sh")
    }

    /// Runs a script that must succeed. Returns what it prints.
    pub fn sh(&self, script: &str) -> String {
        let done = self.shell(&format!("set -e\n{script}"));
        assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("text")
    }

    /// Runs `ip -json -batch` in `$A`: standard output and standard error.
    pub fn batch(&self, lines: &str) -> (String, String) {
        let mut ip = Command::new("ip")
            .args(["-n", &self.name, "-json", "-force", "-batch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("ip");
        let (mut input, lines) = (ip.stdin.take().expect("a pipe"), lines.to_owned());
        let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
        let done = ip.wait_with_output().expect("an end");
        writer.join().expect("a thread").expect("all written");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (text(done.stdout), text(done.stderr))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.shell("ip netns del $A; ip netns del $B");
    }
}
