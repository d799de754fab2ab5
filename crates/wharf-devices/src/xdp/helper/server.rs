//! `Helper`: the privileged side. It attaches the programs of its interfaces, and answers requests until it is stopped.

use super::guests::Guests;
use super::{
    CONNECT, FD_ACK, FD_NAK, FIN, FIN_ACK, HOST_OK, MAP, NAK, PATIENCE, SOCKET, STAY, STAY_ACK, VERSION,
    VERSION_IS, request, send,
};
use crate::iface::io_fault;
use crate::link::Link;
use crate::unix_socket::Listening;
use crate::xdp::program::{Program, Source};
use crate::xdp::steering::Steering;
use crate::xdp::{Access, Refusal, find};
use std::collections::VecDeque;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};
use vmm_sys_util::sock_ctrl_msg::ScmSocket;
use wharf_core::device::DeviceError;
use wharf_mem::lock;
use wharf_sys::errno::{EBUSY, EEXIST, EOPNOTSUPP, EPERM};
use wharf_sys::packet::PacketSocket;
use wharf_sys::stream::has_ended;
use wharf_sys::unix_socket::{Kind, peer_uid, peer_unread_bytes};
use wharf_sys::xdp::{Hook, SocketMap, XdpSocket};

/// Queues for which a map has room.
const QUEUES_MAX: u32 = 256;
/// Most users that are answered at a time.
const USERS_MAX: usize = 16;
/// Most requests of one connection.
const REQUESTS_MAX: usize = 64;
/// Time before the next attempt to accept, when descriptors or threads have run out.
const PAUSE: Duration = Duration::from_millis(100);
/// Time between two looks for a descriptor to be read.
const NAP: Duration = Duration::from_millis(1);
/// Bytes of frames on their way that a socket is given room for, for the largest rings: the user may not raise it.
const SEND_BUFFER_BYTES: usize = 65_536 * 4096;

/// Settings of a [`Helper`].
#[derive(Debug, Clone)]
pub struct HelperOptions {
    /// Permissions of the socket: a user that may write to it may connect. `None` leaves those of the
    /// process's umask, or stands for 660 with a group. With either, a folder is refused in which another
    /// user may put another file in the socket's place.
    pub mode: Option<u32>,
    /// Group of the socket.
    pub group: Option<u32>,
    /// Directory of a BPF file system in which the map of each interface is pinned, by the interface's name, while the helper runs.
    pub pin: Option<PathBuf>,
    /// True to receive frames for other addresses, too: the interfaces are promiscuous while the helper runs.
    pub promiscuous: bool,
}

/// A helper that listens. Programs are attached while it lives.
#[derive(Debug)]
pub struct Helper {
    listening: Listening,
    interfaces: Arc<Vec<Served>>,
    guests: Arc<Guests>,
}

/// A connection, and the thread that answers it.
#[derive(Debug)]
struct User {
    uid: u32,
    stream: UnixStream,
    thread: JoinHandle<()>,
}

/// An interface and its program.
#[derive(Debug)]
struct Served {
    name: String,
    pin: Option<PathBuf>,
    promiscuous: bool,
    /// An interface that has gone and come back has another index.
    now: Mutex<Option<Now>>,
}

/// The interface of a name, with its program.
#[derive(Debug)]
struct Now {
    index: i32,
    program: Arc<Program>,
    _pin: Option<Pin>,
    _promiscuous: Option<PacketSocket>,
}

/// A map that is pinned until this is dropped, unless another one is pinned there by then.
#[derive(Debug)]
struct Pin {
    path: PathBuf,
    /// The map's number.
    id: u32,
}

impl Pin {
    /// Pins `map` at `path`, in place of a map of sockets that a killed helper has left there, and of no other file.
    fn new(path: &Path, map: &SocketMap) -> io::Result<Self> {
        if SocketMap::pinned(path).is_ok() {
            std::fs::remove_file(path)?;
        }
        map.pin(path)?;
        Ok(Self { path: path.into(), id: map.id()? })
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if SocketMap::pinned(&self.path).and_then(|map| map.id()).is_ok_and(|id| id == self.id) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Helper {
    /// Attaches a program to each interface of `interfaces`, and listens at `path`.
    ///
    /// # Errors
    /// [`DeviceError::Io`] if there is no such interface, it has a program, or a capability is lacking (CAP_NET_RAW, CAP_NET_ADMIN
    /// and CAP_BPF are needed), and those of bind(2).
    pub fn listen(path: &Path, interfaces: &[&str], options: &HelperOptions) -> Result<Self, DeviceError> {
        let served = |name: &&str| {
            let pin = options.pin.as_ref().map(|directory| directory.join(name));
            let promiscuous = options.promiscuous;
            let served = Served { name: (*name).into(), pin, promiscuous, now: Mutex::default() };
            served.program().map(|_| served)
        };
        let interfaces = Arc::new(interfaces.iter().map(served).collect::<Result<Vec<_>, _>>()?);
        let device = format!("helper {}", path.display().to_string().escape_debug());
        let listening = Listening::at(path, Kind::Seqpacket, options.mode, options.group);
        let listening = listening.map_err(io_fault(&device, "cannot listen"))?;
        Ok(Self { listening, interfaces, guests: Arc::default() })
    }

    /// Returns the interfaces, and where the program of each runs: `native` or `generic`.
    pub fn interfaces(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.interfaces.iter().map(|served| {
            let mode = match served.program().map(|program| program.hook()) {
                Ok(Some(Hook::Generic)) => "generic",
                Ok(_) => "native",
                Err(_) => "gone",
            };
            (&*served.name, mode)
        })
    }

    /// Returns a handle that ends [`Helper::run`].
    ///
    /// # Errors
    /// `EMFILE`.
    pub fn stopper(&self) -> io::Result<impl FnOnce() + Send + use<>> {
        let listener = UnixStream::from(OwnedFd::from(self.listening.listener.try_clone()?));
        // A listening socket that is shut down accepts no more, and says so to the thread that waits.
        Ok(move || _ = listener.shutdown(Shutdown::Both))
    }

    /// Answers requests, each user by a thread of its own, until it is stopped. A silent user is let go, and when there are as many as are
    /// answered at a time, the first connection of the user with the most of them has to go: no user holds up another.
    pub fn run(&self) {
        let mut users: VecDeque<User> = VecDeque::new();
        loop {
            let stream = match self.listening.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => break,
                Err(_) => {
                    sleep(PAUSE);
                    continue;
                }
            };
            users.retain(|user| !user.thread.is_finished());
            if !peer_uid(&stream).is_ok_and(|uid| self.guests.admits(uid)) {
                continue;
            }
            if users.len() >= USERS_MAX {
                users.remove(first_of_the_busiest(&users)).into_iter().for_each(end);
            }
            match self.start(stream) {
                Ok(user) => users.push_back(user),
                Err(_) => sleep(PAUSE),
            }
        }
        users.into_iter().for_each(end);
    }

    fn start(&self, stream: UnixStream) -> io::Result<User> {
        let (interfaces, guests) = (self.interfaces.clone(), self.guests.clone());
        let (uid, serving) = (peer_uid(&stream)?, stream.try_clone()?);
        let run = move || match serve(&serving, &interfaces, || guests.admits_one_more(uid)) {
            Ok(true) => guests.keep(uid, serving),
            // A user that breaks off, or is silent, has no answer. The thread that accepts has the stream, too.
            ended => {
                let _ = serving.shutdown(Shutdown::Both);
                if ended.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
                    guests.note_unread(uid, serving);
                }
            }
        };
        Ok(User { uid, stream, thread: Builder::new().name("wharf-helper".into()).spawn(run)? })
    }
}

/// Returns the position of the first connection of the user that has most of them.
fn first_of_the_busiest(users: &VecDeque<User>) -> usize {
    let uids: Vec<u32> = users.iter().map(|user| user.uid).collect();
    let count = |uid: u32| uids.iter().filter(|&&other| other == uid).count();
    let most = uids.iter().copied().map(count).max().unwrap_or_default();
    uids.iter().position(|&uid| count(uid) == most).unwrap_or_default()
}

/// Ends a user's thread: it reads the end of its stream.
fn end(user: User) {
    let _ = user.stream.shutdown(Shutdown::Both);
    let _ = user.thread.join();
}

impl Served {
    /// Returns the program of the interface that has the name now.
    fn program(&self) -> Result<Arc<Program>, DeviceError> {
        let mut now = lock(&self.now);
        let link = find(&self.name, 0, &Access::default())?;
        let index = link.interface.index;
        if let Some(now) = now.as_ref().filter(|now| now.index == index) {
            return Ok(now.program.clone());
        }
        // The program of an interface that has gone does nothing any more.
        *now = None;
        let program = Arc::new(attach(&link)?);
        let pin = self.pin.as_ref().map(|path| {
            let what = format!("cannot pin its map at {}", path.display().to_string().escape_debug());
            Pin::new(path, program.sockets()).map_err(link.fault(&what))
        });
        let _pin = pin.transpose()?;
        let _promiscuous = self.promiscuous.then(|| promiscuous(&link)).transpose()?;
        *now = Some(Now { index, program: program.clone(), _pin, _promiscuous });
        Ok(program)
    }
}

/// Attaches a program to the driver's hook, or else to the generic one.
fn attach(link: &Link) -> Result<Program, DeviceError> {
    let source = Source::Loaded(Steering::All);
    let make = |hook| source.make(link.interface.index, hook, QUEUES_MAX - 1);
    let made = make(Hook::Native).or_else(|(step, error): Refusal| match error.raw_os_error() {
        Some(EOPNOTSUPP) => make(Hook::Generic),
        _ => Err((step, error)),
    });
    made.map_err(|(_, error)| {
        let what = match error.raw_os_error() {
            Some(EPERM) => "needs CAP_BPF and CAP_NET_ADMIN, and not in a user namespace".into(),
            Some(EBUSY | EEXIST) => {
                format!("it has an XDP program already (`ip link show {}`)", link.interface_name)
            }
            _ => "cannot attach the program that hands frames over".into(),
        };
        link.fault(&what)(error)
    })
}

/// Makes an interface promiscuous while the result lives.
fn promiscuous(link: &Link) -> Result<PacketSocket, DeviceError> {
    let made = PacketSocket::open().and_then(|socket| {
        socket.make_promiscuous(link.interface.index)?;
        Ok(socket)
    });
    made.map_err(link.fault("the interface cannot be made promiscuous"))
}

/// Answers the requests of one user. Returns true if its connection is to last.
fn serve(stream: &UnixStream, interfaces: &[Served], may_stay: impl Fn() -> bool) -> io::Result<bool> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    for _ in 0..REQUESTS_MAX {
        let Some(request) = request(stream)? else { return Ok(false) };
        let (what, of) = request.split_once(',').map_or((&*request, ""), |(what, of)| (what, of.trim()));
        let served = || interfaces.iter().find(|served| served.name == of);
        match what {
            CONNECT => send(stream, HOST_OK)?,
            VERSION => send(stream, VERSION_IS)?,
            MAP => match served().and_then(|served| served.program().ok()) {
                Some(program) => give(stream, program.sockets().fd())?,
                None => send(stream, FD_NAK)?,
            },
            SOCKET => match served().map(|_| socket()) {
                Some(Ok(socket)) => give(stream, socket.fd())?,
                _ => send(stream, FD_NAK)?,
            },
            STAY if may_stay() => return send(stream, STAY_ACK).map(|()| true),
            FIN => return send(stream, FIN_ACK).map(|()| false),
            _ => send(stream, NAK)?,
        }
    }
    Ok(false)
}

fn socket() -> io::Result<XdpSocket> {
    let socket = XdpSocket::open()?;
    socket.set_send_buffer(SEND_BUFFER_BYTES);
    Ok(socket)
}

/// Gives a descriptor, and waits until the user has read it: see [`Guests`].
fn give(stream: &UnixStream, fd: BorrowedFd<'_>) -> io::Result<()> {
    stream.send_with_fd(FD_ACK.as_bytes(), fd.as_raw_fd()).map_err(io::Error::from)?;
    let until = Instant::now() + PATIENCE;
    while peer_unread_bytes(stream)? > 0 {
        if Instant::now() >= until || has_ended(stream.as_fd()) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        sleep(NAP);
    }
    Ok(())
}
