//! `--route`: each end's arrivals leave by the end that the kernel's tables name, as a router's do.

use crate::args::{ForwardArgs, WhenFull};
use crate::output::{grouped, warn};
use crate::report::Drops;
use crate::usage;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use wharf::forward::{ForwardSettings, Summary, Way};
use wharf::{Burst, Port, Wait};
use wharf_devices::spec::DeviceSpec;
use wharf_route::{Reason, Router};

/// Bytes of a frame: a packet of 1500 bytes with the headers of two tunnels in front.
pub(super) const FRAME_BYTES: u32 = 4096;

/// What the router has done, both ends together. The keys are a promise.
#[derive(Debug, Serialize)]
pub(super) struct RouteReport {
    /// Packets that arrived, and its own ICMP errors.
    packets: u64,
    /// Packets that it handed to an end's queue.
    routed: u64,
    /// Packets that the host has a copy of: those to it, and those that no router takes.
    left_to_host: u64,
    drops: Drops,
}

/// The router, once the ends are open.
#[derive(Clone, Default)]
pub(super) struct Routed(Arc<Mutex<Option<Router>>>);

/// Checks what goes with `--route`.
pub(super) fn check(args: &ForwardArgs) -> anyhow::Result<()> {
    if !args.route {
        return Ok(());
    }
    if !args.ports.is_empty() {
        return Err(usage("--route: between two ends: three and more are a switch"));
    }
    if let Some(end) = [&args.a, &args.b].into_iter().find(|end| !matches!(end.kind().name, "packet" | "xdp"))
    {
        return Err(usage(format!(
            "--route: {end} is none of packet and xdp, whose interfaces the kernel's routes name"
        )));
    }
    match () {
        () if args.queues > 1 => Err(usage("--route: by one queue of each end")),
        () if args.when_full == Some(WhenFull::Wait) => {
            Err(usage("--route: a router drops what does not fit: --when-full drop-tail or drop-head"))
        }
        () => Ok(()),
    }
}

/// Warns where the kernel forwards what arrives, too. IPv6 asks the interface only for `force_forwarding`.
pub(super) fn warn_of_kernel(end: &DeviceSpec) {
    let name = end.place();
    let settings = [
        format!("ipv4/conf/{name}/forwarding"),
        "ipv6/conf/all/forwarding".to_owned(),
        format!("ipv6/conf/{name}/force_forwarding"),
    ];
    for setting in settings.iter().filter(|_| leaves_copies(&end.name())) {
        let forwards = std::fs::read_to_string(format!("/proc/sys/net/{setting}"));
        if forwards.is_ok_and(|text| text.trim() == "1") {
            // With slashes, since the name of an interface may have dots.
            warn(&format!(
                "{end}: the kernel forwards what arrives there, too, so that it arrives twice: sysctl -w net/{setting}=0"
            ));
        }
    }
}

/// True if the host gets what arrives at a device of this name, too.
fn leaves_copies(name: &str) -> bool {
    name.starts_with("packet:")
}

fn is_left_to_host(reason: Reason) -> bool {
    matches!(reason, Reason::ThisHost | Reason::NotForwarded)
}

impl Routed {
    /// Has `settings` route between two ports.
    pub(super) fn set(&self, settings: &mut ForwardSettings, ends: [&DeviceSpec; 2]) {
        let (routed, places) = (self.clone(), ends.map(|end| end.place().to_owned()));
        settings.ways = Some(Box::new(move |ports: [&Port; 2]| {
            let router = Router::new(places.iter().cloned().zip(ports.map(Clone::clone)))?;
            let way = |port: usize| way(&router, ports[port], port);
            let ways = [way(0)?, way(1)?];
            *wharf_mem::lock(&routed.0) = Some(router);
            Ok(ways)
        }));
    }

    /// Drops what waits for neighbours.
    pub(super) fn end(&self) {
        wharf_mem::lock(&self.0).iter().for_each(Router::end);
    }

    /// Returns what the router has done, and a line if it is not what its ends had. `None` without one.
    pub(super) fn report(&self, ends: &[Summary]) -> Option<(RouteReport, Option<String>)> {
        let counts = wharf_mem::lock(&self.0).take()?.counts();
        let handed: u64 = ends
            .iter()
            .flat_map(|end| &end.queues)
            .map(|queue| queue.counters().accepted.get() + queue.sender_totals().drops.get())
            .sum();
        let copies = ends.iter().all(|end| leaves_copies(&end.from));
        let (left, dropped): (Vec<_>, Vec<_>) =
            counts.drops().partition(|(reason, _)| copies && is_left_to_host(*reason));
        let by_reason: BTreeMap<String, u64> =
            dropped.into_iter().map(|(reason, count)| (reason.name().into(), count)).collect();
        let arrived: u64 = ends.iter().map(|end| end.received - end.cut + end.pieces).sum();
        let is_whole = counts.routed == handed && counts.waiting == 0 && counts.given >= arrived;
        let missing = (!is_whole).then(|| format!("the router's account does not add up: {counts:?}, of {arrived} packets that arrived; {handed} at the queues"));
        let left_to_host = left.into_iter().map(|(_, count)| count).sum();
        Some((
            RouteReport {
                packets: counts.given,
                routed: counts.routed,
                left_to_host,
                drops: Drops::of(by_reason),
            },
            missing,
        ))
    }
}

fn way(router: &Router, port: &Port, at: usize) -> io::Result<Way> {
    let memory = port.sender("segments").map_err(io::Error::other)?;
    let mut sender = router.sender(&format!("from {}", port.name()))?;
    let (all, copies) = (sender.drops(), leaves_copies(port.name()));
    let drops = Arc::new(move |see: &mut dyn FnMut(&str, u64)| {
        let counted = all().into_iter().filter(|(reason, _)| !(copies && is_left_to_host(*reason)));
        counted.for_each(|(reason, count)| see(reason.name(), count));
    });
    let by = Box::new(move |burst: &mut Burst| {
        // An error says that an end is being closed: the packets are counted.
        _ = sender.forward_all(burst, at, Wait::Never);
        sender.flush_or_drop(Wait::Never);
        Ok(())
    });
    Ok(Way { by, memory, drops })
}

impl RouteReport {
    /// Returns it as a line, for people.
    pub(super) fn line(&self) -> String {
        let Self { packets, routed, left_to_host, drops } = self;
        let all = [*packets, *routed, *left_to_host, drops.total].map(grouped);
        format!(
            "{} packets in the router: {} routed, {} left to the host, {} dropped",
            all[0], all[1], all[2], all[3]
        )
    }
}
