//! The `wharf` binary: parse, build, run, print. What a library user would miss is in the libraries.
//!
//! Exit codes: 0 done, 1 failed, 2 used wrongly; each failure is one line on standard error.
#![forbid(unsafe_code)]

mod args;
mod bench;
mod devices;
mod files;
mod forward;
mod lab;
mod output;
mod plan;
mod progress;
mod queues;
mod receive;
mod report;
mod send;
mod signals;
mod stall;
mod wrap;

use args::Command;
use std::process::ExitCode;

/// Used wrongly: exit code 2.
#[derive(Debug)]
struct Usage(String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// An error that ends with exit code 2.
fn usage(what: impl std::fmt::Display) -> anyhow::Error {
    Usage(what.to_string()).into()
}

fn main() -> ExitCode {
    let command = match args::parse() {
        Ok(command) => command,
        Err(code) => return code,
    };
    // Without it a vhost-user driver's unsealed memory is refused, and the device says so.
    let _ = wharf::devices::vhost_user::install_sigbus_handler();
    let done = match command {
        Command::Send(args) => send::send(&args),
        Command::Receive(args) => receive::receive(&args),
        Command::Forward(args) => forward::forward(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Lab(args) => lab::lab(&args),
        Command::Bench(args) => bench::bench(&args),
        Command::Devices(args) => devices::devices(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&output::with_causes(&error));
            ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
        }
    }
}
