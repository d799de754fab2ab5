//! Processors, NICs and TCP in virtual time: one binary, since each links anew.

mod agenda;
mod cx5;
mod flows;
mod host_memory;
mod hostile;
mod hostile_nics;
mod nics_and_plan;
mod path;
mod processors;
mod second_opinion;
mod simple_nic;
mod tcp;
mod time;
