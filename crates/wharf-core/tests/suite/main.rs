//! The path over doubles and in virtual time: one binary, since each links anew.

mod audit;
mod bql_properties;
mod bql_stall;
mod bql_traces;
mod drops;
mod ends_of_waits;
mod forms;
mod fq_codel;
mod held;
mod memory;
mod memory_stopped;
mod owners;
mod packets;
mod panics;
mod path;
mod poller_time;
mod pollers;
mod small_queues;
mod source;
mod spread;
mod starved;
mod tasks;
mod threads;
mod virtual_time;
mod waiters;
mod wakes;
