//! The uses that this host makes of an interface, which end when its adapter is taken away.

use std::fs;
use std::path::Path;
use wharf_devices::interfaces::{INTERFACES, Uses};

/// Packet sockets (`AF_PACKET`) of this thread's network namespace (`packet_seq_show`).
const PACKET_SOCKETS: &str = "/proc/thread-self/net/packet";

/// Returns the use of interface `name` that weighs most; `None` if there is none.
pub(super) fn of(name: &str) -> Option<&'static str> {
    match Uses::of(name) {
        Uses { has_default_route: true, .. } => return Some("carries the default route"),
        Uses { login: Some(_), .. } => return Some("carries this login (SSH)"),
        Uses { addresses, .. } if !addresses.is_empty() => return Some("has an address"),
        Uses { above, .. } if !above.is_empty() => {
            return Some("is below another interface (bridge, bond, VLAN)");
        }
        _ => {}
    }
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let index = read(&Path::new(INTERFACES).join(name).join("ifindex"));
    has_packet_socket(&read(Path::new(PACKET_SOCKETS)), index.trim())
        .then_some("has the packet socket of a program")
}

/// True if the text of `packet` has a socket that is bound to interface `index`.
fn has_packet_socket(sockets: &str, index: &str) -> bool {
    sockets.lines().skip(1).any(|line| line.split_whitespace().nth(4) == Some(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_sockets_are_found_by_the_index_of_their_interface() {
        let sockets = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n\
            0000000000000000 3      3    0003   2     1 0      0      31415\n\
            0000000000000000 3      10   88cc   0     1 0      0      31416\n";
        assert_eq!(["2", "3", ""].map(|index| has_packet_socket(sockets, index)), [true, false, false]);
        assert!(!has_packet_socket("", ""));
    }

    #[test]
    fn loopback_has_an_address_and_an_unknown_interface_no_use() {
        assert_eq!([of("lo"), of("none-such-there")], [Some("has an address"), None]);
    }
}
