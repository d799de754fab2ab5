//! A virtual machine's side of `vhost-user`, by hand.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use vmm_sys_util::eventfd::EventFd;
use vmm_sys_util::sock_ctrl_msg::ScmSocket;

/// Address of the shared memory for the driver.
pub const USER: u64 = 0x7000_0000;
/// VIRTIO_F_VERSION_1 and VHOST_USER_F_PROTOCOL_FEATURES.
pub const FEATURES: u64 = 1 << 32 | 1 << 30;
/// VHOST_USER_PROTOCOL_F_REPLY_ACK.
pub const REPLY_ACK: u64 = 1 << 3;

pub fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

pub fn state(index: u32, number: u32) -> Vec<u8> {
    [index.to_ne_bytes(), number.to_ne_bytes()].concat()
}

/// A driver's side of the messages.
pub struct Peer(pub UnixStream);

impl Peer {
    pub fn connect(path: &Path) -> Self {
        let began = Instant::now();
        loop {
            match UnixStream::connect(path) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                    return Self(stream);
                }
                Err(error) => assert!(began.elapsed() < Duration::from_secs(60), "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn send(&self, request: u32, flags: u32, body: &[u8], fds: &[RawFd]) {
        let header = [request, 1 | flags, body.len() as u32].map(u32::to_ne_bytes).concat();
        self.0.send_with_fds(&[&[&header, body].concat()[..]], fds).unwrap();
    }

    pub fn reply(&mut self) -> Vec<u8> {
        let mut header = [0; 12];
        self.0.read_exact(&mut header).unwrap();
        let mut body = vec![0; u32::from_ne_bytes(header[8..].try_into().unwrap()) as usize];
        self.0.read_exact(&mut body).unwrap();
        body
    }

    pub fn ask(&mut self, request: u32) {
        self.send(request, 0, &[], &[]);
        self.reply();
    }

    /// Sends it, and waits until it was understood.
    pub fn tell(&mut self, request: u32, body: &[u8], fds: &[RawFd]) {
        self.send(request, 8, body, fds);
        assert_eq!(self.reply(), words(&[0]), "message {request}");
    }
}

/// Buffers of a virtqueue.
const SIZE: u16 = 16;
/// Bytes of memory: rings first, of 4096 bytes each, then buffers of 2048.
const GUEST_BYTES: u64 = 1 << 20;
const BUFFERS_AT: u64 = 64 << 10;

/// A machine with one queue pair, of split rings, whose driver takes frames when it is told to.
pub struct Guest {
    pub peer: Peer,
    memory: File,
    kicks: [EventFd; 2],
    calls: [EventFd; 2],
}

impl Guest {
    /// Connects, and agrees on features: the machine boots.
    pub fn boot(socket: &Path) -> Self {
        let mut peer = Peer::connect(socket);
        let (memory, there) = vmm_memory();
        peer.send(3, 0, &[], &[]);
        peer.ask(1);
        peer.ask(15);
        peer.send(16, 0, &words(&[REPLY_ACK]), &[]);
        peer.tell(2, &words(&[FEATURES]), &[]);
        peer.tell(5, &[state(1, 0), words(&[0, GUEST_BYTES, USER, 0])].concat(), &[there]);
        let events = || [0, 1].map(|_| EventFd::new(0).unwrap());
        Self { peer, memory, kicks: events(), calls: events() }
    }

    /// Sets up both virtqueues without a buffer, and enables them: the driver is there.
    pub fn enable(&mut self) {
        for index in 0..2u32 {
            let at = USER + u64::from(index) * 4096;
            self.peer.tell(8, &state(index, SIZE.into()), &[]);
            self.peer.tell(10, &state(index, 0), &[]);
            self.peer.tell(9, &[state(index, 0), words(&[at, at + 2048, at + 1024, 0])].concat(), &[]);
            let (call, kick) = (&self.calls[index as usize], &self.kicks[index as usize]);
            self.peer.tell(13, &words(&[index.into()]), &[call.as_raw_fd()]);
            self.peer.tell(12, &words(&[index.into()]), &[kick.as_raw_fd()]);
            self.peer.tell(18, &state(index, 1), &[]);
        }
    }

    /// Gives the virtqueue for frames to the driver all of its buffers.
    pub fn post(&self) {
        for buffer in 0..SIZE {
            let address = BUFFERS_AT + u64::from(buffer) * 2048;
            // A descriptor of 2048 bytes that the device writes.
            self.memory.write_all_at(&words(&[address, 2048 | 2 << 32]), u64::from(buffer) * 16).unwrap();
            self.memory.write_all_at(&buffer.to_le_bytes(), 1024 + 4 + u64::from(buffer) * 2).unwrap();
        }
        self.memory.write_all_at(&SIZE.to_le_bytes(), 1024 + 2).unwrap();
        self.kicks[0].write(1).unwrap();
    }

    /// Returns the number of buffers that have been used.
    pub fn used(&self) -> u16 {
        let mut used = [0; 2];
        self.memory.read_exact_at(&mut used, 2048 + 2).unwrap();
        u16::from_le_bytes(used)
    }

    /// Waits until `count` buffers have been used.
    pub fn await_used(&self, count: u16) {
        let began = Instant::now();
        while self.used() < count {
            assert!(began.elapsed() < Duration::from_secs(60), "{} of {count}", self.used());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// True if the other side has not ended the connection.
    pub fn is_connected(&self) -> bool {
        let stream = &self.peer.0;
        stream.set_nonblocking(true).unwrap();
        let is_connected =
            (&*stream).read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        stream.set_nonblocking(false).unwrap();
        is_connected
    }
}

/// Makes the memory. Returns it, and the descriptor to be sent.
fn vmm_memory() -> (File, RawFd) {
    let path = format!("/dev/shm/wharf-guest-{}-{:?}", std::process::id(), std::thread::current().id());
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.set_len(GUEST_BYTES).unwrap();
    let fd = file.as_raw_fd();
    (file, fd)
}
