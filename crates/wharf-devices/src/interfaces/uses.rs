//! The uses that this host makes of an interface, which end when its frames, or its adapter, are taken away.

use super::login::Login;
use std::fs;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::Path;
use wharf_sys::addresses::addresses;
use wharf_sys::interface::{Interface, InterfaceSocket};
use wharf_sys::netlink::Netlink;

/// Interfaces of the network namespace that sysfs was mounted in.
pub const INTERFACES: &str = "/sys/class/net";
/// Addresses of the world outside (RFC 5737, RFC 3849): the kernel's way to them is the default one, by
/// whatever table or half of one.
const OUTSIDE: [&str; 2] = ["198.51.100.1", "2001:db8::1"];
/// Interfaces above one another, at most.
const ABOVE_MAX: usize = 64;

/// The uses of an interface. They are those of the interfaces above it as well: bridge, bond, VLAN.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Uses {
    /// Interfaces above it.
    pub above: Vec<String>,
    /// Addresses, without those of IPv6 that the kernel gives to each interface.
    pub addresses: Vec<IpAddr>,
    /// True if the default route of a table goes by it.
    pub has_default_route: bool,
    /// The remote login that this process belongs to, if it comes in by the interface.
    pub login: Option<Login>,
}

impl Uses {
    /// Returns the uses of interface `name`.
    pub fn of(name: &str) -> Self {
        let mut names = vec![name.to_string()];
        let mut at = 0;
        while at < names.len().min(ABOVE_MAX) {
            let above = above(&Path::new(INTERFACES).join(&names[at]));
            names.extend(above.into_iter().filter(|above| !names.contains(above)).collect::<Vec<_>>());
            at += 1;
        }
        let (all, routes) = (addresses().unwrap_or_default(), Routes::read());
        let is_one = |name: &str| names.iter().any(|one| one == name);
        let of_host = all.iter().filter(|(name, address)| is_one(name) && !is_link_local(*address));
        let outside = OUTSIDE.iter().filter_map(|address| routes.interface_to(address.parse().ok()?));
        let login = Login::of_process().filter(|login| match login.server {
            Some(server) => {
                let has_it = |(_, address): &&(String, IpAddr)| *address == server;
                // A login of another network namespace is none by this interface.
                all.iter().any(|one| has_it(&one))
                    && (all.iter().filter(has_it).any(|(name, _)| is_one(name))
                        || routes.interface_to(login.client).is_some_and(|name| is_one(&name)))
            }
            None => routes.interface_to(login.client).is_some_and(|name| is_one(&name)),
        });
        Self {
            addresses: of_host.map(|(_, address)| *address).collect(),
            has_default_route: routes.defaults.iter().any(|name| is_one(name))
                || outside.into_iter().any(|name| is_one(&name)),
            login,
            above: names.split_off(1),
        }
    }

    /// True if the host would be cut off without the interface.
    pub fn is_vital(&self) -> bool {
        self.has_default_route || self.login.is_some()
    }

    /// Returns the uses in words, as in "eth0 has ..."; `None` if there are none.
    pub fn words(&self) -> Option<String> {
        let mut words: Vec<String> = self.addresses.iter().take(3).map(IpAddr::to_string).collect();
        if let Some(more) = self.addresses.len().checked_sub(4) {
            words.push(format!("{} more addresses", more + 1));
        }
        words.extend(self.has_default_route.then(|| "the default route".into()));
        words.extend(self.login.as_ref().map(|login| format!("this login (SSH from {})", login.client)));
        let last = words.pop()?;
        Some(if words.is_empty() { last } else { format!("{} and {last}", words.join(", ")) })
    }
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Returns the interfaces that the one with folder `folder` in sysfs belongs to, or carries.
fn above(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| name.strip_prefix("upper_").map(str::to_string)).collect()
}

/// The routes of this network namespace.
struct Routes {
    sockets: Option<(Netlink, InterfaceSocket)>,
    /// Interfaces of default routes, of any table: rules by mark, source or process choose among them.
    defaults: Vec<String>,
}

impl Routes {
    fn read() -> Self {
        let sockets = Netlink::open().ok().zip(InterfaceSocket::open().ok());
        let indices = Netlink::default_routes();
        let name = |index| Interface::name_of(sockets.as_ref()?.1.as_fd(), index).ok();
        Self { defaults: indices.into_iter().filter_map(name).collect(), sockets }
    }

    /// Returns the interface by which the kernel sends to `address`, if there is one.
    fn interface_to(&self, address: IpAddr) -> Option<String> {
        let (netlink, socket) = self.sockets.as_ref()?;
        Interface::name_of(socket.as_fd(), netlink.interface_to(address).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_above_is_found_by_its_link_in_sysfs() {
        let folder = std::env::temp_dir().join(format!("wharf-uses-{}", std::process::id()));
        for (name, expected) in [("queues", &[][..]), ("upper_br0", &["br0"])] {
            fs::create_dir_all(folder.join(name)).unwrap();
            assert_eq!(above(&folder), expected, "{name}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn uses_are_told_in_words() {
        let addresses = ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "fd00::1"];
        let addresses = addresses.map(|address| address.parse().unwrap());
        let login = Login::parse("10.0.0.9 50000 10.0.0.2 22", None);
        let words = |count: usize, has_default_route, login: Option<Login>| {
            Uses { addresses: addresses[..count].into(), has_default_route, login, ..Uses::default() }.words()
        };
        assert_eq!(words(0, false, None), None);
        assert_eq!(words(1, false, None), Some("10.0.0.2".into()));
        assert_eq!(words(1, true, None), Some("10.0.0.2 and the default route".into()));
        let all = "10.0.0.2, 10.0.0.3, 10.0.0.4, 2 more addresses, the default route and this login (SSH from 10.0.0.9)";
        assert_eq!(words(5, true, login), Some(all.into()));
        assert_eq!(words(3, false, None), Some("10.0.0.2, 10.0.0.3 and 10.0.0.4".into()));
    }

    #[test]
    fn loopback_has_an_address_and_an_unknown_interface_no_use() {
        let lo = Uses::of("lo");
        assert!(lo.addresses.iter().all(IpAddr::is_loopback) && !lo.has_default_route, "{lo:?}");
        assert_eq!(Uses::of("none-such-there"), Uses::default());
    }
}
