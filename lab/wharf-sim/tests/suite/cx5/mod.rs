//! ConnectX-5: both sides of both queues, against each other and against hostile bytes.

mod completions;
mod driver;
mod entries;
mod hardware;
mod traffic;
