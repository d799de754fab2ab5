//! Questions about neighbours: what is known of those of a hop, and what the kernel is asked for.

use std::net::IpAddr;
use wharf_net::{Asker, Exit, Hop, Neighbour};

/// What is known of the neighbours of a hop.
pub(crate) enum Asked {
    Fresh,
    Unknown,
    /// It did not answer. `is_asked`: it has just been asked for anew.
    Failed {
        is_asked: bool,
    },
}

/// Asks for each neighbour of a hop that is unknown, stale or failed, those of tunnels included.
pub(crate) fn ask(asker: &mut Asker, hop: &Hop, destination: IpAddr) -> Asked {
    let mut is_asked = false;
    if !matches!(hop.neighbour, Neighbour::Known { is_stale: false, .. } | Neighbour::NotNeeded) {
        // A kernel that cannot be asked leaves the neighbour as it is: the packets wait, and are counted.
        is_asked = asker.ask(hop, destination).unwrap_or(false);
    }
    match (hop.neighbour, &hop.exit) {
        (Neighbour::Failed, _) => Asked::Failed { is_asked },
        (Neighbour::Unknown, _) => Asked::Unknown,
        (_, Exit::Tunnel(tunnel)) => match &tunnel.hop {
            Ok(outer) => ask(asker, outer, tunnel.destination),
            Err(_) => Asked::Fresh,
        },
        _ => Asked::Fresh,
    }
}
