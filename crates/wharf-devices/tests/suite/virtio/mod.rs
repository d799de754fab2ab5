//! Virtqueues: driver against device, either layout; the split one against another implementation; peers that
//! break the rules.

mod hostile;
mod in_order;
mod inflight;
mod memory;
mod oracle;
mod pair;
mod pairs;
mod plain;
mod stale_base;
