//! The driver's side of the messages, by hand: so that it can break every rule.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use vmm_sys_util::sock_ctrl_msg::ScmSocket;
use wharf_devices::virtio::{Layout, Options, Place, feature};
use wharf_sys::event::EventFd;
use wharf_sys::mapping::Mapping;
use wharf_sys::shared::{Area, View};

pub const GET_FEATURES: u32 = 1;
pub const SET_FEATURES: u32 = 2;
pub const SET_OWNER: u32 = 3;
pub const SET_MEM_TABLE: u32 = 5;
pub const SET_VRING_NUM: u32 = 8;
pub const SET_VRING_ADDR: u32 = 9;
pub const SET_VRING_BASE: u32 = 10;
pub const GET_VRING_BASE: u32 = 11;
pub const SET_VRING_KICK: u32 = 12;
pub const SET_VRING_CALL: u32 = 13;
pub const GET_PROTOCOL_FEATURES: u32 = 15;
pub const SET_PROTOCOL_FEATURES: u32 = 16;
pub const SET_VRING_ENABLE: u32 = 18;

/// Address of the shared memory for the driver.
pub const GUEST: u64 = 0x1000_0000;
pub const USER: u64 = 0x7000_0000;
/// Bytes of it.
pub const MEMORY_BYTES: usize = 4 << 20;
/// Protocol features: REPLY_ACK, so that a test knows when a message was understood.
const REPLY_ACK: u64 = 1 << 3;
const VERSION: u32 = 1;
const NEED_REPLY: u32 = 8;

/// A message as it goes over the socket.
pub fn message(request: u32, flags: u32, body: &[u8]) -> Vec<u8> {
    [&request.to_ne_bytes()[..], &flags.to_ne_bytes(), &(body.len() as u32).to_ne_bytes(), body].concat()
}

pub fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

pub fn state(index: u32, number: u32) -> Vec<u8> {
    [index.to_ne_bytes(), number.to_ne_bytes()].concat()
}

pub fn addresses(index: u32, descriptors: u64, used: u64, available: u64) -> Vec<u8> {
    [state(index, 0), words(&[descriptors, used, available, 0])].concat()
}

/// The body of SET_MEM_TABLE: guest address, bytes, user address, offset in the file, of each region.
pub fn table(regions: &[[u64; 4]]) -> Vec<u8> {
    let head = state(regions.len() as u32, 0);
    regions.iter().fold(head, |table, region| [table, words(region)].concat())
}

/// One virtqueue, as its driver has it.
pub struct Queue {
    pub place: Place,
    pub kick: EventFd,
    pub call: EventFd,
}

/// A connection, and memory.
pub struct Peer {
    pub stream: UnixStream,
    pub area: Arc<Area>,
    pub features: u64,
}

impl Peer {
    pub fn connect(path: &Path) -> Self {
        Self::of(UnixStream::connect(path).unwrap())
    }

    pub fn of(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mapping = Mapping::shared_small_pages(MEMORY_BYTES).unwrap();
        Self { stream, area: Arc::new(Area::new(mapping)), features: 0 }
    }

    /// The same memory, over another connection.
    pub fn again(&self, path: &Path) -> Self {
        let again = Self::connect(path);
        Self { stream: again.stream, area: self.area.clone(), features: self.features }
    }

    pub fn fd(&self) -> RawFd {
        self.area.mapping().unwrap().fd().unwrap().as_raw_fd()
    }

    pub fn raw(&self, bytes: &[u8], fds: &[RawFd]) {
        // It may have been closed already, which is what such a test looks for.
        let _ = self.stream.send_with_fds(&[bytes], fds);
    }

    pub fn send(&self, request: u32, body: &[u8], fds: &[RawFd]) {
        self.raw(&message(request, VERSION, body), fds);
    }

    /// The next reply's body; `None` where the connection is closed.
    pub fn reply(&mut self) -> Option<Vec<u8>> {
        let mut header = [0; 12];
        self.stream.read_exact(&mut header).ok()?;
        let len = u32::from_ne_bytes(header[8..].try_into().unwrap());
        let mut body = vec![0; len as usize];
        self.stream.read_exact(&mut body).ok()?;
        Some(body)
    }

    pub fn ask(&mut self, request: u32, body: &[u8]) -> Option<Vec<u8>> {
        self.send(request, body, &[]);
        self.reply()
    }

    /// Sends it, and waits until it was understood; whether it was.
    pub fn tell(&mut self, request: u32, body: &[u8], fds: &[RawFd]) -> bool {
        self.raw(&message(request, VERSION | NEED_REPLY, body), fds);
        self.reply().is_some_and(|body| body == words(&[0]))
    }

    /// Agrees on as many of `wanted` as there are, with protocol features and acknowledgements.
    pub fn negotiate(&mut self, wanted: u64) {
        self.send(SET_OWNER, &[], &[]);
        let offered = self.ask(GET_FEATURES, &[]).unwrap();
        let offered = u64::from_ne_bytes(offered.try_into().unwrap());
        self.ask(GET_PROTOCOL_FEATURES, &[]).unwrap();
        self.send(SET_PROTOCOL_FEATURES, &words(&[REPLY_ACK]), &[]);
        self.features = offered & (wanted | feature::VHOST_PROTOCOL | feature::VERSION_1);
        assert!(self.tell(SET_FEATURES, &words(&[self.features]), &[]));
    }

    pub fn share(&mut self) -> bool {
        let fd = self.fd();
        self.tell(SET_MEM_TABLE, &table(&[[GUEST, MEMORY_BYTES as u64, USER, 0]]), &[fd])
    }

    pub fn layout(&self) -> Layout {
        if self.features & feature::PACKED != 0 { Layout::Packed } else { Layout::Split }
    }

    pub fn options(&self) -> Options {
        Options::of(self.features)
    }

    /// A ring of `size` at byte `at` of the memory.
    pub fn queue(&self, at: usize, size: u32) -> Queue {
        let place = Place::within(&self.area, at, self.layout(), size).unwrap();
        Queue { place, kick: EventFd::new().unwrap(), call: EventFd::new().unwrap() }
    }

    /// Tells all about virtqueue `index`, and enables it; whether all was understood.
    pub fn set_up(&mut self, index: u32, at: usize, queue: &Queue, base: u32) -> bool {
        self.announce(index, at, queue, base) && self.tell(SET_VRING_ENABLE, &state(index, 1), &[])
    }

    /// Tells all about virtqueue `index`, which is started and not enabled.
    pub fn announce(&mut self, index: u32, at: usize, queue: &Queue, base: u32) -> bool {
        let told = self.messages_of(index, at, queue, base);
        told.into_iter().all(|(request, body, fds)| self.tell(request, &body, &fds))
    }

    /// Works like [`Peer::announce`] for a device that acknowledges nothing.
    pub fn announce_mute(&self, index: u32, at: usize, queue: &Queue) {
        let told = self.messages_of(index, at, queue, 0);
        told.into_iter().for_each(|(request, body, fds)| self.send(request, &body, &fds));
    }

    fn messages_of(
        &self, index: u32, at: usize, queue: &Queue, base: u32,
    ) -> [(u32, Vec<u8>, Vec<RawFd>); 5] {
        let size = queue.place.size();
        let [descriptors, driver, device] =
            Place::offsets(self.layout(), size, at).map(|offset| USER + offset as u64);
        let of = |event: &EventFd| event.as_fd().as_raw_fd();
        [
            (SET_VRING_NUM, state(index, size.into()), vec![]),
            (SET_VRING_BASE, state(index, base), vec![]),
            (SET_VRING_ADDR, addresses(index, descriptors, device, driver), vec![]),
            (SET_VRING_CALL, words(&[index.into()]), vec![of(&queue.call)]),
            (SET_VRING_KICK, words(&[index.into()]), vec![of(&queue.kick)]),
        ]
    }

    /// Bytes of the shared memory.
    pub fn view(&self) -> View {
        View::new(&self.area, 0, MEMORY_BYTES).unwrap()
    }

    /// True if the other side closes the connection within 20 s.
    pub fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        loop {
            match self.stream.read(&mut byte) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
            }
        }
    }
}

/// A file that can be made shorter, of `len` bytes, of which none is stored.
pub fn unsealed(len: u64) -> File {
    file_in("/dev/shm".as_ref(), len)
}

/// A file without a name in `directory`, of `len` bytes.
pub fn file_in(directory: &Path, len: u64) -> File {
    let path = directory.join(format!("wharf-{}-{:?}", std::process::id(), std::thread::current().id()));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.set_len(len).unwrap();
    file
}
