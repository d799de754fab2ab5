//! The command line of Wharf, as a library: [`run`] parses, runs and prints.
//!
//! A program with devices or disciplines of its own adds them to [`Registries`] and calls [`run`]: `send`, `receive`, `forward`, help and
//! `devices` then know them. `examples/own-device` is such a program. `wharf-lab` and `wharf-bench`, programs that the command runs
//! ([`beside`]), take from here what all commands share: the command line, output, progress, signals, files.
//!
//! Exit codes: 0 done, 1 failed, 2 used wrongly. Each failure is one line on standard error.
#![forbid(unsafe_code)]

pub mod args;
pub mod beside;
#[cfg(feature = "intel")]
mod bind;
pub mod command_line;
mod config;
mod counts;
mod demo;
mod devices;
mod doctor;
mod errors;
mod explain;
pub mod files;
pub mod fold;
mod forward;
mod helper;
pub mod host;
mod host_queue;
mod live;
mod live_words;
mod log;
pub mod machine;
mod news;
mod next_hop;
pub mod output;
mod outside;
mod overload;
mod page;
pub mod pages;
mod plain;
mod processor;
pub mod progress;
mod queues;
mod receive;
mod repeats;
mod report;
mod route;
mod sandbox;
mod send;
mod service;
pub mod session;
pub mod signals;
mod stream;
mod verbosity;
mod verdict;
mod watch;
mod wrap;

use args::{AdminCommand, Command};
use std::ffi::OsString;
use std::process::ExitCode;
use wharf::qdisc::QdiscRegistry;
use wharf_devices::registry::Registry;
use wharf_devices::spec::Kind;
#[cfg(feature = "verbs")]
use wharf_devices::spec::Place;

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

/// Adds the kinds of adapters, where they are listed: `verbs` before the devices of sockets, then Intel's, and
/// `net`.
fn with_adapters(mut kinds: Vec<&'static Kind>) -> Vec<&'static Kind> {
    #[cfg(feature = "verbs")]
    {
        let is_of_socket = |kind: &&Kind| matches!(kind.place, Place::Socket(_));
        kinds.insert(kinds.iter().position(is_of_socket).unwrap_or(kinds.len()), &wharf_verbs::KIND);
    }
    #[cfg(feature = "intel")]
    kinds.extend([&wharf_intel::e1000::KIND, &wharf_intel::igb::KIND]);
    kinds.push(&next_hop::KIND);
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

/// Returns an error that ends with exit code 2.
pub fn usage(what: impl std::fmt::Display) -> anyhow::Error {
    Usage(what.to_string()).into()
}

/// Runs the command line `words`, the first of which is the program's name, and returns its exit code.
pub fn run(registries: &Registries, words: impl IntoIterator<Item = OsString>) -> ExitCode {
    // Before there is another thread.
    #[cfg(feature = "verbs")]
    wharf_verbs::free_removed_devices();
    let words: Vec<OsString> = words.into_iter().collect();
    if let Some(code) = beside::run(&words) {
        return code;
    }
    let origin = config::Origin { registries, words: &words };
    let read = command_line::read(beside::apart(args::command(registries)), &words);
    let line = match read.as_ref().ok().and_then(|matches| Some((matches, config::file_of(matches)?))) {
        Some((matches, path)) => config::load(origin, matches, path).map_err(|errors| {
            errors.iter().for_each(|error| output::complain(error));
            ExitCode::from(2)
        }),
        None => command_line::line_of(read).map_err(|error| command_line::refuse(&error, &words, |_| None)),
    };
    line.map_or_else(|code| code, |line| command_line::end(line, |command| carry_out(command, origin)))
}

/// Carries a command out.
fn carry_out(command: Command, origin: config::Origin<'_>) -> anyhow::Result<()> {
    let registries = origin.registries;
    match command {
        Command::Demo(args) => demo::demo(&args, registries),
        Command::Send(args) => send::send(&next_hop::found(args.placed(), &registries.devices)?, registries),
        Command::Receive(args) => receive::receive(&args.placed()),
        Command::Forward(args) => forward::forward(&args, origin),
        Command::Show(args) => watch::show(&args),
        Command::Set(args) => watch::set(&args),
        #[cfg(feature = "top")]
        Command::Top(args) => watch::top(&args),
        Command::Explain(args) => explain::explain(&args, registries),
        Command::Pages(pages) => {
            let with_words =
                |command| live_words::with_places(explain::with_words(command, &registries.devices));
            pages.print("wharf", args::command(registries), with_words)
        }
        Command::Devices(args) => devices::devices(&args, &registries.devices),
        Command::Doctor(args) => doctor::doctor(&args, &registries.devices),
        #[cfg(feature = "intel")]
        Command::Admin(AdminCommand::Bind(args)) | Command::Bind(args) => bind::bind(&args),
        Command::Admin(AdminCommand::Helper(args)) | Command::Helper(args) => helper::helper(&args),
        Command::Words(args) => live_words::words(&args, &registries.devices),
        Command::Route(args) => route::route(&args),
        Command::Plan(_) | Command::Lab(_) | Command::Bench(_) => Err(usage("this is a bug in wharf")),
    }
}
