//! Requests to the kernel to resolve a neighbour, or to confirm one.
//!
//! The kernel confirms a neighbour that its own traffic uses, and forgets others. What leaves past it has to
//! be told of (`NTF_USE`).

use crate::hop::{Hop, Neighbour};
use crate::kernel::{IPV4, IPV6, NEW_NEIGHBOUR};
use crate::maps::Map;
use crate::socket::Socket;
use crate::wire::{CREATE, Request};
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// As the kernel repeats its own questions.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// One that is unknown may have been known when it was last asked for. The kernel asks no more often for it.
const AGAIN_IF_UNKNOWN: Duration = Duration::from_millis(20);
/// Neighbours that are remembered as asked for.
const ASKED_MAX: usize = 4096;
const USE: u8 = 1;

/// Asks the kernel for neighbours: at most once a second for each, or 50 times while it is unknown. Needs
/// CAP_NET_ADMIN in the network namespace.
#[derive(Debug)]
pub struct Asker {
    socket: Socket,
    asked: Map<(u32, IpAddr), Instant>,
    buffer: Vec<u8>,
}

impl Asker {
    /// Opens an asker, in the network namespace of this thread.
    ///
    /// # Errors
    /// The system's: out of descriptors.
    pub fn open() -> io::Result<Self> {
        Ok(Self { socket: Socket::open(false)?, asked: Map::default(), buffer: Vec::new() })
    }

    /// Asks for the neighbour of a hop that leads to `destination`, if it is unknown, stale or failed: the
    /// kernel resolves or confirms it, and the mirror has the answer as an event. Returns true if the kernel
    /// was asked.
    ///
    /// # Errors
    /// The system's.
    pub fn ask(&mut self, hop: &Hop, destination: IpAddr) -> io::Result<bool> {
        if matches!(hop.neighbour, Neighbour::NotNeeded | Neighbour::Known { is_stale: false, .. }) {
            return Ok(false);
        }
        let is_unknown = hop.neighbour == Neighbour::Unknown;
        let again_after = if is_unknown { AGAIN_IF_UNKNOWN } else { AGAIN_AFTER };
        self.ask_for(hop.interface, hop.gateway.unwrap_or(destination), Instant::now(), again_after)
    }

    fn ask_for(
        &mut self, interface: u32, address: IpAddr, now: Instant, again_after: Duration,
    ) -> io::Result<bool> {
        let is_recent = |asked: &Instant| now.saturating_duration_since(*asked) < again_after;
        if self.asked.get(&(interface, address)).is_some_and(is_recent) {
            return Ok(false);
        }
        if self.asked.len() == ASKED_MAX {
            self.asked.retain(|_, asked| is_recent(asked));
            if self.asked.len() == ASKED_MAX {
                return Ok(false);
            }
        }
        // Refusals of earlier requests: a neighbour that cannot be asked for stays unknown.
        while self.socket.receive(&mut self.buffer)? {}
        self.socket.send(use_of(interface, address))?;
        self.asked.insert((interface, address), now);
        Ok(true)
    }
}

/// Returns the request that a neighbour counts as used: it is made if there is none, resolved if it has no
/// MAC, confirmed if it is stale.
fn use_of(interface: u32, address: IpAddr) -> Request {
    let (family, octets) = match &address {
        IpAddr::V4(address) => (IPV4, address.octets().to_vec()),
        IpAddr::V6(address) => (IPV6, address.octets().to_vec()),
    };
    let mut fixed = [0; 12];
    fixed[0] = family;
    fixed[4..8].copy_from_slice(&interface.to_ne_bytes());
    fixed[10] = USE;
    Request::new(NEW_NEIGHBOUR, CREATE, 0, &fixed).with(1, &octets)
}
