//! Mappings, system calls and clocks: the one crate that talks to the kernel.
//!
//! Each module is a thin, safe wrapper around calls that are unsafe, each block with its argument. No module knows a
//! protocol. Few calls change the whole process, and are only made on request: [`guard::install`], a signal handler,
//! [`credentials::become_user`] and [`credentials::restrict_capabilities`].

#[cfg(not(target_os = "linux"))]
compile_error!("Wharf runs on Linux only");

pub mod addresses;
pub mod affinity;
pub mod cache_line;
pub mod call;
pub mod clock;
pub mod credentials;
pub mod epoll;
pub mod errno;
pub mod ethtool;
pub mod event;
pub mod fence;
pub mod file;
pub mod guard;
mod ifreq;
pub mod interface;
pub mod mapping;
pub mod namespace;
pub mod netlink;
mod option;
pub mod packet;

pub mod shared;
pub mod slice;
pub mod stable_fd;
pub mod stream;
pub mod tap;
pub mod timer;
pub mod udp;
pub mod unix_socket;
pub mod usage;
pub mod xdp;
