//! Our next hop beside the kernel's: random destinations in network namespaces, each asked of `ip route get`
//! and of us. Needs root: `./test net`, or `cargo test -p wharf-net --test kernel -- --ignored`.

mod compare;
mod following;
mod rig;
mod topologies;
