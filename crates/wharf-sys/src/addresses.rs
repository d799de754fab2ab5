//! The addresses of the interfaces of this thread's network namespace: getifaddrs(3).

use crate::call::check;
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns each address, with the name of its interface.
///
/// # Errors
/// Those of `socket(2)`.
pub fn addresses() -> io::Result<Vec<(String, IpAddr)>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the call writes the pointer, to a list that is freed below.
    check(unsafe { libc::getifaddrs(&raw mut first) })?;
    let (mut next, mut all) = (first, Vec::new());
    // SAFETY: an entry of the list, which is not freed yet, or null at its end.
    while let Some(entry) = unsafe { next.as_ref() } {
        // SAFETY: the name is a text of the list.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        // SAFETY: the address is one of the list, or null.
        all.extend(unsafe { address(entry.ifa_addr) }.map(|address| (name, address)));
        next = entry.ifa_next;
    }
    // SAFETY: the list of the call above; nothing of it is used any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(all)
}

/// Returns the address, if it is one of IPv4 or IPv6.
///
/// # Safety
/// It is null, or a socket address as long as its family has it.
unsafe fn address(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the caller's.
    let family = i32::from(unsafe { address.as_ref() }?.sa_family);
    match family {
        libc::AF_INET => {
            // SAFETY: an address of this family, by the caller.
            let address = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from_bits(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: an address of this family, by the caller.
            let address = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_its_address() {
        let all = addresses().unwrap();
        // Loopback may be down, in a namespace of its own.
        let of_loopback = |(name, address): &(String, IpAddr)| name == "lo" && address.is_loopback();
        assert!(all.iter().any(of_loopback) || all.iter().all(|(name, _)| name != "lo"), "{all:?}");
    }
}
