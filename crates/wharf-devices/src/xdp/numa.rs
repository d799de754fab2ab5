//! The pool's memory on the adapter's NUMA node: the adapter writes and reads it without a way through another processor's memory.

use crate::host::number_in;
use crate::link::Link;
use std::fs;
use wharf_mem::Region;

/// Nodes that the machine may have: `0` if there is one.
const NODES: &str = "/sys/devices/system/node/possible";

/// Has the memory of `region` that was not touched before come from the node of the adapter of `link`, if the machine has several. The
/// first device of a pool decides.
pub(super) fn place(link: &Link, region: &Region) {
    if fs::read_to_string(NODES).map_or(true, |nodes| nodes.trim() == "0") {
        return;
    }
    if let Some(node) = node(link) {
        // Memory from elsewhere is slower, and as good.
        let _ = region.mapping().prefer_node(node);
    }
}

/// Returns the node of the adapter of `link`, if it is on one.
fn node(link: &Link) -> Option<u32> {
    let read = |file: &str| number_in::<i64>(&format!("/sys/class/net/{}/{file}", link.interface_name));
    // sysfs may show another network namespace than this thread's.
    let is_ours = read("ifindex") == Some(i64::from(link.interface.index));
    // -1 if the firmware does not tell.
    read("device/numa_node").filter(|_| is_ours).and_then(|node| u32::try_from(node).ok())
}
