//! Where the packets of a burst gather before their hops are looked up together.

use crate::arrived::{Arrived, Refused};
use crate::template::Ends;
use wharf::Packet;
use wharf_net::Query;

/// Packets whose hops are looked up at a time.
pub(crate) const TOGETHER: usize = 16;

/// Empty between calls: its memory is kept.
#[derive(Debug)]
pub(crate) struct Together {
    pub(crate) queries: Vec<Query>,
    pub(crate) packets: Vec<Packet>,
    pub(crate) ends: Vec<Ends>,
    pub(crate) arrived: Vec<Arrived>,
    pub(crate) own: Vec<bool>,
    pub(crate) refused: Vec<(Packet, Arrived, Refused)>,
}

impl Default for Together {
    fn default() -> Self {
        Self {
            queries: Vec::with_capacity(TOGETHER),
            packets: Vec::with_capacity(TOGETHER),
            ends: Vec::with_capacity(TOGETHER),
            arrived: Vec::with_capacity(TOGETHER),
            own: Vec::with_capacity(TOGETHER),
            refused: Vec::with_capacity(TOGETHER),
        }
    }
}
