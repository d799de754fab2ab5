//! `Far`: counts what arrives at the other end, where that can be seen.

use crate::kind::{Device, Packet, Tap, Udp, Xdp};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use wharf::queue::Rest;
use wharf::{Direction, Port, net};

/// The state of the socket that receives datagrams.
pub const OPEN: u8 = 0;
pub const CLOSED: u8 = 1;
/// It is open, and not read.
pub const UNREAD: u8 = 2;
const OVER: u8 = 3;

#[derive(Default)]
struct Shared {
    packets: AtomicU64,
    socket: AtomicU8,
}

pub struct Far {
    shared: Arc<Shared>,
    path: Option<Port>,
    is_counted: bool,
}

impl Far {
    pub fn new(device: Device) -> Self {
        let shared = Arc::<Shared>::default();
        let spec = match device {
            Packet | Xdp => Some("packet:vb"),
            Tap => Some("packet:t0"),
            _ => None,
        };
        let path = spec.map(|spec| Port::open(spec, Direction::Receive).unwrap());
        if let Some(path) = &path {
            let counts = shared.clone();
            let count = move |burst: &mut wharf::Burst| {
                let packets = burst.iter_mut().filter(|bytes| bytes.get(23) == Some(&net::UDP)).count();
                counts.packets.fetch_add(packets as u64, SeqCst);
                Rest::Free
            };
            path.on_receive(count).unwrap();
        }
        if device == Udp {
            let shared = shared.clone();
            std::thread::spawn(move || receive(&shared));
        }
        Self { shared, is_counted: path.is_some() || device == Udp, path }
    }

    /// Returns the packets that have arrived, where they are counted.
    pub fn packets(&self) -> Option<u64> {
        self.is_counted.then(|| self.shared.packets.load(SeqCst))
    }

    pub fn set_socket(&self, state: u8) {
        self.shared.socket.store(state, SeqCst);
    }

    /// Ends it. Returns the frames that are out of its pool.
    pub fn close(&self) -> usize {
        self.set_socket(OVER);
        self.path.as_ref().map_or(0, |path| path.close(Duration::from_secs(1)).out())
    }
}

fn receive(shared: &Shared) {
    let mut socket = None;
    let mut bytes = [0; 2048];
    loop {
        match shared.socket.load(SeqCst) {
            OVER => return,
            CLOSED => socket = None,
            UNREAD => {}
            _ => {
                let socket = socket.get_or_insert_with(|| {
                    let socket = UdpSocket::bind("0.0.0.0:9000").unwrap();
                    socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
                    socket
                });
                if socket.recv(&mut bytes).is_ok() {
                    shared.packets.fetch_add(1, SeqCst);
                }
                continue;
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
