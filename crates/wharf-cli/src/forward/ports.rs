//! `Ports`: what a running forwarder's ends are, and the ports of a switch that a reload plugs and unplugs.

use super::policy::Policy;
use super::tell::Tells;
use crate::args::{ForwardArgs, WhenFull};
use crate::host;
use crate::log;
use crate::news::treated;
use crate::output::{complain, note, with_causes};
use crate::watch::{Board, Change, Running, Settings};
use std::collections::BTreeMap;
use wharf::device::wrap_device;
use wharf::forward::{Forward, ForwardSettings, Summary};
use wharf::qdisc::Rate;
use wharf_core::device::AnyDevice;
use wharf_core::poller;
use wharf_devices::spec::DeviceSpec;
use wharf_tools::trace::TraceFile;

/// See the module.
pub(super) struct Ports {
    ends: Vec<DeviceSpec>,
    /// What a reload must keep of each: see [`kept`].
    kept: Vec<String>,
    /// By direction.
    running: Vec<Running>,
    /// Settings of ports that were unplugged, at their end, by end.
    gone: BTreeMap<String, Settings>,
    in_force: Settings,
    mirror: Option<TraceFile>,
}

impl Ports {
    /// Shows the directions of `forward` on `board`. They begin with the settings `in_force`.
    pub(super) fn show(
        forward: &Forward, args: &ForwardArgs, in_force: Settings, mirror: Option<TraceFile>, board: &Board,
    ) -> Self {
        let ends: Vec<DeviceSpec> = args.ends().into_iter().cloned().collect();
        let kept = ends.iter().map(|end| kept(args, end)).collect();
        let (running, gone) = (Vec::new(), BTreeMap::new());
        // A reload may replace all ports.
        mirror.iter().for_each(TraceFile::hold);
        let mut this = Self { ends, kept, running, gone, in_force, mirror };
        this.run(forward, args, board);
        this
    }

    /// Shows the directions that are new.
    fn run(&mut self, forward: &Forward, args: &ForwardArgs, board: &Board) {
        for direction in &forward.directions()[self.running.len()..] {
            direction.queues.iter().for_each(|queue| queue.set_batching(args.batch));
            self.running.push(Running::forwarding(direction, &self.in_force));
        }
        board.put(self.running.clone());
        board.put_pollers(forward.poller_counters());
    }

    /// Returns the settings of the direction of each summary now, or as its port was unplugged.
    pub(super) fn settings(&self, summaries: &[Summary]) -> Vec<Settings> {
        let running =
            self.running.iter().map(|path| path.settings().unwrap_or_else(|| self.in_force.clone()));
        let gone = summaries.iter().skip(self.running.len());
        let gone = gone.map(|summary| self.gone.get(&summary.to).unwrap_or(&self.in_force).clone());
        running.chain(gone).collect()
    }

    /// Has the mirror end. Returns its error, if frames are missing in it.
    pub(super) fn end_mirror(&mut self) -> Option<String> {
        self.mirror.take()?.leave().err().map(|error| error.to_string())
    }

    /// Unplugs the ports that `wanted` has not, or in another VLAN, and plugs those that it has in addition: with
    /// its settings.
    pub(super) fn change_to(
        &mut self, wanted: &ForwardArgs, forward: &mut Forward, tells: &mut Tells, board: &Board,
    ) {
        if let Ok(policy) = Policy::of(wanted) {
            self.in_force = Settings::of_forwarder(wanted, &policy);
        }
        for at in (0..self.ends.len()).rev() {
            if !wanted.ends().iter().any(|end| kept(wanted, end) == self.kept[at]) {
                let name = self.unplug(at, forward, tells);
                note(&format!("{name}: unplugged"));
            }
        }
        for end in wanted.ends() {
            if self.kept.contains(&kept(wanted, end)) {
                continue;
            }
            match self.plug(end, wanted, forward, tells) {
                Ok(()) => note(&format!("{}: plugged", end.name())),
                Err(error) => complain(&format!("{}; it is not plugged", with_causes(&error))),
            }
        }
        self.run(forward, wanted, board);
        // Ports that stay have these settings already.
        let adopted = board.adopt(&self.in_force, &wanted.set).map(drop);
        let there = Change::check_all(&wanted.set, &board.names(), &board.devices(), board.qdiscs());
        if let Err(error) = adopted.and(there.map_err(|error| format!("--set {error}"))) {
            complain(&error);
        }
    }

    /// Unplugs port `at`, whose device is gone for good, for the reason `why`. A reload plugs it again.
    pub(super) fn lose(
        &mut self, at: usize, why: &str, forward: &mut Forward, tells: &mut Tells, board: &Board,
    ) {
        let name = self.unplug(at, forward, tells);
        complain(&format!("{why}; {name} is unplugged, and the other ports go on"));
        board.put(self.running.clone());
        board.put_pollers(forward.poller_counters());
    }

    /// Unplugs port `at`. Returns its name.
    fn unplug(&mut self, at: usize, forward: &mut Forward, tells: &mut Tells) -> String {
        self.kept.remove(at);
        forward.unplug(at);
        tells.unplug(at);
        let (path, name) = (self.running.remove(at), self.ends.remove(at).name());
        self.gone.extend(path.settings().map(|settings| (name.clone(), settings)));
        name
    }

    fn plug(
        &mut self, end: &DeviceSpec, wanted: &ForwardArgs, forward: &mut Forward, tells: &mut Tells,
    ) -> anyhow::Result<()> {
        log::note_device(&end.name());
        host::spare(wanted.host, end, Forward::direction_at(self.ends.len(), end.kind()))?;
        let mut builder = treated(Forward::end(self.ends.len(), end), wanted.recovery, end);
        if let Some(file) = &self.mirror {
            builder = builder.wrap(mirroring(file.clone()));
        }
        for builder in Forward::open(vec![builder], wanted.queues)? {
            forward.plug(builder, &settings(wanted, &self.in_force))?;
        }
        tells.plug(forward, end, wanted).inspect_err(|_| forward.unplug(self.ends.len()))?;
        self.ends.push(end.clone());
        self.kept.push(kept(wanted, end));
        Ok(())
    }
}

/// Returns what a port cannot change while it is plugged: its device, and its VLANs.
fn kept(args: &ForwardArgs, end: &DeviceSpec) -> String {
    let name = end.name();
    let vlans = args.vlan.iter().filter(|(of, _)| *of == name).map(|(_, vlans)| vlans.as_str());
    std::iter::once(end.to_string().as_str()).chain(vlans).collect::<Vec<_>>().join(" in ")
}

/// Returns the settings of a forwarder whose directions begin with `in_force`.
pub(super) fn settings(args: &ForwardArgs, in_force: &Settings) -> ForwardSettings {
    let by_default = ForwardSettings::default();
    ForwardSettings {
        frames: args.frames,
        frame_bytes: args.frame_bytes,
        qdisc_packets: in_force.limited_qdisc().packets() as u32,
        // Longer super-packets are segmented: an urgent packet would wait for one that is leaving.
        longest_bytes: in_force.bucket().map(|rate| args.bucket.unwrap_or_else(|| millisecond_bytes(rate))),
        byte_limits: args.bql,
        small_queues: in_force.small_queues.0,
        qdisc: args.ends().iter().map(|_| in_force.make_qdisc()).collect(),
        drop_tail: in_force.when_full == WhenFull::DropTail,
        poller: poller::Settings { mode: args.poll, ..poller::Settings::default() },
        pollers: args.pollers,
        cpus: args.cpu.clone(),
        flood_pps: args.flood_limit.unwrap_or(by_default.flood_pps),
        vlans: args.vlan.clone(),
        age: args.forget_after.unwrap_or(by_default.age),
        ways: None,
    }
}

/// Returns the bytes that leave in a millisecond, or those of an ordinary frame where that is more.
fn millisecond_bytes(rate: Rate) -> u64 {
    (rate.bits_per_second() / 8000).max(1514)
}

/// Returns what has a device that sends write what has left to `file`.
pub(super) fn mirroring(file: TraceFile) -> impl FnMut(AnyDevice) -> AnyDevice + Send + 'static {
    move |device| match device {
        AnyDevice::Rx(_) => device,
        device => wrap_device!(device, |inner| file.around(inner).sent_only()),
    }
}
