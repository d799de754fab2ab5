//! Models, comparators and experiments: one binary, since each links anew.

mod batching;
mod drops;
mod exchange_slots;
mod fairness;
mod far_host;
mod fitted;
mod golden;
mod histogram;
mod linux_qdisc;
mod linux_qdisc_one_queue;
mod linux_qdisc_shared;
mod locked_queue;
mod page_policy;
mod page_pool;
mod parameters;
mod scenario;
mod sweep;
mod virtio_guest;
mod wharf_path;
