//! `Router`: the kernel's tables, and a port for each interface that packets may leave by.

use crate::counts::{Cells, Counts};
use crate::neighbours;
use crate::sender::RouteSender;
use crate::shared::{Alive, All, Shared};
use crate::waiting::Waiting;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use wharf::{PagePool, Port};
use wharf_net::{Mirror, Tables};

/// The headroom that the pool of a router with tunnels or VLANs should have: Ethernet, two tags, and two
/// outer headers of VXLAN over IPv6. Its frames are of 4096 bytes then, so that packets of 1500 bytes fit:
/// `PagePool::builder().frame_bytes(4096).headroom_bytes(HEADROOM_BYTES)`. The default, 64, holds Ethernet in
/// front of UDP over IPv6.
pub const HEADROOM_BYTES: u32 = 256;

/// The kernel's tables, which a thread follows, and the ports that packets leave by. A clone is the same
/// router. Packets that wait for a neighbour go by a thread of the router, which ends with its last clone and
/// sender.
#[derive(Debug, Clone)]
pub struct Router {
    /// Senders have none of them: a port whose handler has a sender would never end.
    ports: Arc<[(String, Port)]>,
    shared: Arc<Shared>,
    alive: Arc<Alive>,
}

impl Router {
    /// Makes a router of the network namespace of this thread. Each port leads out by the interface that
    /// stands beside it, which may go and come again. All ports have one pool.
    ///
    /// # Errors
    /// The system's, if the kernel's tables cannot be read; of kind `InvalidInput`, if there is no port, or
    /// two have different pools.
    pub fn new<Name: Into<String>>(ports: impl IntoIterator<Item = (Name, Port)>) -> io::Result<Self> {
        let ports: Arc<[_]> = ports.into_iter().map(|(name, port)| (name.into(), port)).collect();
        let number = |port: &Port| port.pool().region().number();
        let invalid = |what| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        match ports.iter().map(|(_, port)| number(port)).collect::<Vec<_>>()[..] {
            [] => return invalid("a router has at least one port"),
            [first, ref others @ ..] if others.iter().any(|other| *other != first) => {
                return invalid("the ports of a router share one pool: build them with PortBuilder::pool");
            }
            _ => {}
        }
        let waiting = Waiting::new(ports[0].1.pool().frames());
        let watch = Mirror::open()?.spawn()?;
        let tables = watch.tables();
        let shared = Arc::new(Shared {
            _watch: watch,
            tables,
            waiting,
            errors: Mutex::default(),
            all: Mutex::default(),
        });
        neighbours::spawn(sender(&ports, &shared, "neighbours", None)?)?;
        let alive = Arc::new(Alive(shared.clone()));
        Ok(Self { ports, shared, alive })
    }

    /// Makes a sender, for one thread.
    ///
    /// # Errors
    /// Those of [`Port::sender`], as text; the system's, out of descriptors.
    pub fn sender(&self, name: &str) -> io::Result<RouteSender> {
        sender(&self.ports, &self.shared, name, Some(self.alive.clone()))
    }

    /// Returns the kernel's tables.
    pub fn tables(&self) -> Tables {
        self.shared.tables.clone()
    }

    /// Returns the ports, each with its interface.
    pub fn ports(&self) -> &[(String, Port)] {
        &self.ports
    }

    /// Returns the pool of all ports.
    pub fn pool(&self) -> &PagePool {
        // There is a port: `new` has seen it.
        self.ports[0].1.pool()
    }

    /// Ends the sending to neighbours that have not answered: what waits for one is dropped, and counted.
    pub fn end(&self) {
        self.shared.waiting.end();
    }

    /// Returns what all senders have done, those that are no more included.
    pub fn counts(&self) -> Counts {
        let all = self.shared.all.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sum = all.past;
        all.cells.iter().for_each(|cells| cells.add_to(&mut sum));
        sum.close()
    }
}

/// Makes a sender, and has its counters among those of all.
fn sender(
    ports: &[(String, Port)], shared: &Arc<Shared>, name: &str, alive: Option<Arc<Alive>>,
) -> io::Result<RouteSender> {
    let cells = Arc::new(Cells::default());
    let made = RouteSender::new(ports, shared.clone(), alive, name, cells.clone())?;
    let mut all = shared.all.lock().unwrap_or_else(PoisonError::into_inner);
    let All { past, cells: others } = &mut *all;
    others.extract_if(.., |cells| Arc::strong_count(cells) == 1).for_each(|cells| cells.add_to(past));
    others.push(cells);
    Ok(made)
}
