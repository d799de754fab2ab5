//! Queues, senders, pollers and real threads over a wire. No test looks at real time, except to fail in place
//! of hanging.

mod faults;
mod liars;
mod owed;
mod traffic;
