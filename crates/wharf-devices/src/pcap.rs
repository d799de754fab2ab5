//! `pcap`: captures, read as a source of frames and written as a device.

pub mod format;
