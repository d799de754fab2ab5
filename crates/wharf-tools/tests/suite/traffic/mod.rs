//! Traffic: made, checked, timed.

mod arrivals;
mod generate;
mod stamp_check;
mod super_packet;
mod timing;
