//! Traffic: made, checked, timed.

mod arrivals;
mod damaged;
mod generate;
mod latency;
mod replay;
mod sequence;
mod stamp_check;
mod stamps;
mod super_packet;
mod timing;
