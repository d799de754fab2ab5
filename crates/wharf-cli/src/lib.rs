//! The command line of Wharf, as a library: [`run`] parses, runs and prints.
//!
//! A program with devices or disciplines of its own adds them to [`Registries`] and calls [`run`]: `send`, `receive`, `forward`, `bench`, help and
//! `devices` then know them. `examples/own-device` is such a program.
//!
//! Exit codes: 0 done, 1 failed, 2 used wrongly. Each failure is one line on standard error.
#![forbid(unsafe_code)]

mod args;
mod bench;
#[cfg(feature = "intel")]
mod bind;
mod config;
mod demo;
mod devices;
mod doctor;
mod errors;
mod explain;
mod files;
mod fold;
mod forward;
mod helper;
mod host;
mod lab;
mod link;
mod live;
mod log;
mod machine;
mod output;
mod overload;
mod page;
mod pages;
mod plan;
mod processor;
mod progress;
mod queues;
mod receive;
mod recovery;
mod repeats;
mod report;
mod sandbox;
mod send;
mod service;
mod session;
mod signals;
mod stall;
mod verbosity;
mod verdict;
mod watch;
mod wrap;

use args::Command;
use std::ffi::OsString;
use std::process::ExitCode;
use wharf::devices::registry::Registry;
use wharf::devices::spec::Kind;
#[cfg(feature = "verbs")]
use wharf::devices::spec::Place;
use wharf::qdisc::QdiscRegistry;

/// The kinds of devices and of queueing disciplines that the command line can name.
#[derive(Debug, Clone)]
pub struct Registries {
    /// Kinds of devices.
    pub devices: Registry,
    /// Kinds of queueing disciplines.
    pub qdiscs: QdiscRegistry,
}

impl Default for Registries {
    /// Returns the kinds of `wharf`, and those of the adapters that this program is built with.
    fn default() -> Self {
        let built_in = Registry::default();
        let devices = Registry::of(with_adapters(built_in.kinds().to_vec())).unwrap_or(built_in);
        Self { devices, qdiscs: QdiscRegistry::default() }
    }
}

/// Adds the kinds of adapters, where they are listed: `verbs` before the devices of sockets, Intel's last.
#[cfg_attr(not(any(feature = "intel", feature = "verbs")), allow(unused_mut))]
fn with_adapters(mut kinds: Vec<&'static Kind>) -> Vec<&'static Kind> {
    #[cfg(feature = "verbs")]
    {
        let is_of_socket = |kind: &&Kind| matches!(kind.place, Place::Socket(_));
        kinds.insert(kinds.iter().position(is_of_socket).unwrap_or(kinds.len()), &wharf_verbs::KIND);
    }
    #[cfg(feature = "intel")]
    kinds.extend([&wharf_intel::e1000::KIND, &wharf_intel::igb::KIND]);
    kinds
}

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

/// Runs the command line `words`, the first of which is the program's name, and returns its exit code.
pub fn run(registries: &Registries, words: impl IntoIterator<Item = OsString>) -> ExitCode {
    // Before the first write: help, too, may go into a file.
    let _ = signals::survive();
    output::note_file_limit();
    let words: Vec<OsString> = words.into_iter().collect();
    let args::Cli { output: level, command } = match args::parse(registries, &words, lab::help_of_experiment)
    {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    verbosity::set(level.quiet, level.verbose);
    if let Some(format) = level.log {
        log::start(format, level.quiet, level.verbose);
    }
    // A peer that shortens its shared memory raises SIGBUS. Without the handler such memory is refused.
    let _ = wharf::devices::vhost_user::install_sigbus_handler();
    let done = match command {
        Command::Demo(args) => demo::demo(&args, registries),
        Command::Send(args) => send::send(&args, &registries.devices),
        Command::Receive(args) => receive::receive(&args),
        Command::Forward(args) => forward::forward(&args, config::Origin { registries, words: &words }),
        Command::Show(args) => watch::show(&args),
        Command::Set(args) => watch::set(&args),
        #[cfg(feature = "top")]
        Command::Top(args) => watch::top(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Lab(args) => lab::lab(&args),
        Command::Bench(args) => bench::bench(&args),
        Command::Explain(args) => explain::explain(&args, &registries.devices),
        Command::Completions(args) => pages::completions(&args, registries),
        Command::Man(args) => pages::man(&args, registries),
        Command::Devices(args) => devices::devices(&args, &registries.devices),
        Command::Doctor(args) => doctor::doctor(&args, &registries.devices),
        #[cfg(feature = "intel")]
        Command::Bind(args) => bind::bind(&args),
        Command::Helper(args) => helper::helper(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&output::with_causes(&error));
            ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
        }
    }
}
