//! `wharf admin helper`: the privileged part of receiving by AF_XDP, for processes that have no privilege.

use crate::args::HelperArgs;
use crate::output::{note, warn};
use crate::service::Service;
use crate::signals::Signals;
use anyhow::Context;
use std::thread;
use std::time::Duration;
use wharf_devices::xdp::helper::{Helper, HelperOptions};

/// Time between two looks for a signal.
const LOOK: Duration = Duration::from_millis(50);

/// Serves until a signal comes.
pub(crate) fn helper(args: &HelperArgs) -> anyhow::Result<()> {
    let signals = Signals::listen()?;
    let mode = args.mode.unwrap_or(if args.group.is_some() { 0o660 } else { 0o600 });
    let (pin, promiscuous) = (args.pin.clone(), !args.no_promisc);
    let options = HelperOptions { mode: Some(mode), group: args.group, pin, promiscuous };
    let interfaces: Vec<&str> = args.interfaces.iter().map(String::as_str).collect();
    let helper = Helper::listen(&args.socket, &interfaces, &options)?;
    for (interface, mode) in helper.interfaces() {
        note(&format!("serving {interface} ({mode}) at {}", args.socket.display()));
    }
    let service = Service::of_environment();
    service.ready();
    let stop = helper.stopper().context("cannot duplicate a descriptor")?;
    thread::scope(|scope| {
        let serving = scope.spawn(|| helper.run());
        while !signals.asked() && !serving.is_finished() {
            thread::sleep(LOOK);
        }
        service.stopping();
        stop();
        if serving.join().is_err() {
            warn("a thread panicked: this is a bug in wharf");
        }
    });
    Ok(())
}
