//! `News`: the events of a run's ports, printed as lines on standard error. They also end a run that is not to
//! wait for its device.

mod line;
mod stall;

use crate::args::{OnGone, OnStall, RecoveryArgs};
use crate::repeats::Lines;
use crate::watch::DeviceRow;
use crate::wrap::FaultReset;
use line::{Line, Packets};
use stall::{PATIENCE, Stall, TOLD_AFTER};
use std::time::{Duration, Instant};
use wharf::{Event, Events, OpenErrorKind, Port, PortBuilder, State};
use wharf_devices::spec::{DeviceSpec, Place};

/// Time that a device may take to be opened anew.
const RESET_WITHIN: Duration = Duration::from_secs(1);

/// Time in which a peer that has come opens all of its queue pairs.
const OPENS_WITHIN: Duration = Duration::from_millis(200);

/// See the module.
pub(crate) struct News {
    device: Device,
    /// The state of the device before this value was made, as an event.
    before: Option<Event>,
    /// By queue.
    ports: Vec<(Port, Events, Stall)>,
    line: Line,
    /// Lines that are printed however soon they come again.
    lines: Lines,
    /// Since when it is away, and whether for a reset.
    away: Option<(Instant, bool)>,
    /// Time for which it was away before it was opened again.
    absent: Duration,
    /// A line has reported a failure to open it in this absence.
    is_told: bool,
    /// Why the run ends.
    failure: Option<String>,
    /// Faults around the device, which end with it.
    faults: Vec<FaultReset>,
    /// When its peer came, which is still to be described.
    came: Option<Instant>,
}

/// The device, and its treatment.
#[derive(Debug, Clone)]
struct Device {
    name: String,
    /// Its other side is a program that connects.
    is_peer: bool,
    /// It can be opened anew.
    reopens: bool,
    on_gone: OnGone,
    on_stall: OnStall,
    give_up: Option<Duration>,
}

/// Has `port`, over `spec`, treat its device as `args` say.
pub(crate) fn treated(port: PortBuilder, args: RecoveryArgs, spec: &DeviceSpec) -> PortBuilder {
    // The run ends by itself where it shall: its account is that of any other run.
    let on_gone = if args.on_gone == OnGone::Fail { OnGone::Wait } else { args.on_gone };
    let on_stall = match args.on_stall(spec.kind()) {
        OnStall::Reset => wharf::OnStall::Reset,
        OnStall::Report | OnStall::Fail => wharf::OnStall::Report,
    };
    let told = args.give_up.map_or(TOLD_AFTER, |time| time.min(TOLD_AFTER));
    port.on_gone(on_gone).on_stall(on_stall).stall_after(told).remedy_after(PATIENCE)
}

impl News {
    /// Begins the watch over `ports`, the queues of the device that `spec` describes.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub(crate) fn of(ports: &[Port], spec: &DeviceSpec, args: RecoveryArgs) -> anyhow::Result<Self> {
        let kind = spec.kind();
        let device = Device {
            name: ports.first().map_or_else(|| spec.name(), |port| port.name().into()),
            is_peer: matches!(kind.place, Place::Socket(_)),
            reopens: !matches!(kind.place, Place::Nowhere | Place::File(_)),
            on_gone: args.on_gone,
            on_stall: args.on_stall(kind),
            give_up: args.give_up,
        };
        let watched = |port: &Port| Ok((port.clone(), port.events()?, Stall::default()));
        let watched = ports.iter().map(watched).collect::<anyhow::Result<_>>()?;
        // Since it was opened, it may have gone already.
        let before = match ports.first().map(Port::state) {
            Some(State::Down { since, why }) => Some(Event::Down { since, why }),
            Some(State::Gone { since, why }) => Some(Event::Gone { since, why }),
            _ => None,
        };
        let (before_is_up, is_peer) = (before.is_none(), device.is_peer);
        Ok(Self {
            before,
            device,
            ports: watched,
            line: Line::new(before_is_up && !is_peer),
            lines: Lines::of_news(),
            away: None,
            absent: Duration::ZERO,
            is_told: false,
            failure: None,
            faults: Vec::new(),
            came: None,
        })
    }

    /// Lets a run go on whose line goes down, unless that is a peer that has gone: other ends go on.
    pub(crate) fn of_forward(mut self) -> Self {
        self.line.outlives_down = !self.device.is_peer;
        self
    }

    /// Has `faults` end whenever the device goes or is opened anew.
    pub(crate) fn reset_with(mut self, faults: Vec<FaultReset>) -> Self {
        self.faults = faults;
        self
    }

    /// Prints what has happened: to `lines` what either side of the device may report. Returns the error that
    /// ends the run.
    pub(crate) fn look(&mut self, lines: &mut Lines) -> Option<String> {
        self.lines.look();
        lines.look();
        if let Some(event) = self.before.take() {
            self.hear(0, event, lines);
        }
        for at in 0..self.ports.len() {
            while let Some(event) = self.ports[at].1.try_next() {
                self.hear(at, event, lines);
            }
        }
        self.describe(lines);
        let packets = self.packets();
        let (told, failure) = self.line.look(&self.device, self.away.is_some(), &packets, Instant::now());
        told.iter().for_each(|line| lines.tell(line));
        // It may be up again, and nobody has asked since.
        let failure = failure.filter(|_| self.ports.iter().all(|(port, ..)| port.state() != State::Up));
        for (port, _, stall) in &mut self.ports {
            if let Ok(queue) = port.queue() {
                let ended = stall.look(&self.device, queue.counters(), &self.line, Instant::now());
                self.failure = self.failure.take().or(ended);
            }
        }
        self.failure = self.failure.take().or(failure).or_else(|| self.given_up());
        self.failure.clone()
    }

    /// Prints what a peer that came is like.
    fn describe(&mut self, lines: &mut Lines) {
        if self.came.take_if(|came| came.elapsed() >= OPENS_WITHIN).is_some() {
            let peer = self.ports.first().and_then(|(port, ..)| DeviceRow::of(port.queue().ok()?));
            let peer = peer.filter(DeviceRow::is_up);
            let line = peer.map(|peer| format!("{}: its peer: {}", self.device.name, peer.text()));
            line.iter().for_each(|line| lines.tell(line));
        }
    }

    /// Handles an event of port number `at`. Each port has the events of a device that goes and comes.
    fn hear(&mut self, at: usize, event: Event, lines: &mut Lines) {
        match event {
            Event::Stalled { since, .. } => self.ports[at].2.begin(since),
            Event::Resumed { .. } => {
                let (port, _, stall) = &mut self.ports[at];
                stall.end(&self.device, port);
            }
            // A queue may be dead alone; of a device that goes and comes all hear.
            Event::Gone { why, .. } if self.device.on_gone == OnGone::Fail => self.failure = Some(why),
            // From now on: what this thread hears late is not given up at once.
            Event::Down { why, .. } => self.line.goes_down(Instant::now(), why),
            Event::Up => {
                let told = self.line.is_up(&self.device, &self.packets(), Instant::now());
                told.iter().for_each(|line| lines.tell(line));
                self.came = Some(Instant::now());
            }
            _ if at > 0 => {}
            Event::Gone { since, why } if self.device.reopens && self.away.is_none() => {
                self.goes_away(since, false);
                let receives = self.ports.iter().all(|(port, ..)| port.queue().is_err());
                let waits = if receives { "nothing arrives" } else { "packets wait" };
                self.lines.tell(&format!("{why}; {waits} until it is back (--on-gone fail ends instead)"));
            }
            Event::Reset => {
                self.ports.iter_mut().for_each(|(.., stall)| stall.resets(&self.device));
                self.goes_away(Instant::now(), true);
            }
            Event::NotYet { why, kind: OpenErrorKind::NotPermitted } => {
                self.failure = Some(format!("{why}: so it cannot be opened again"));
            }
            Event::NotYet { why, .. } if !std::mem::replace(&mut self.is_told, true) => {
                self.lines.tell(&format!("{why}; it is tried again until it opens"));
            }
            Event::Reopened { after } => {
                self.absent += after;
                self.lines.tell(&format!(
                    "{}: open again after {:.1} s",
                    self.device.name,
                    after.as_secs_f64()
                ));
                (self.away, self.is_told) = (None, false);
                self.ports.iter_mut().for_each(|(.., stall)| stall.reopens());
            }
            _ => {}
        }
    }

    fn packets(&self) -> Packets {
        Packets::of(self.ports.iter().map(|(port, ..)| port))
    }

    fn goes_away(&mut self, since: Instant, is_reset: bool) {
        self.away = Some((since, is_reset));
        self.line.goes_away();
        self.faults.iter().for_each(|reset| reset());
    }

    /// Returns the error of a run that gives up a device that is away.
    fn given_up(&self) -> Option<String> {
        let away = self.away()?;
        let is_late = self.device.give_up.is_some_and(|time| away >= time);
        is_late.then(|| format!("{}: given up: away for {:.1} s", self.device.name, away.as_secs_f64()))
    }

    /// True if a device that has gone is opened again by itself.
    pub(crate) fn is_automatic(&self) -> bool {
        self.device.reopens && self.device.on_gone == OnGone::Reopen
    }

    /// True if a line has reported a stall, and none its end.
    pub(crate) fn is_stalled(&self) -> bool {
        self.ports.iter().any(|(.., stall)| stall.is_told())
    }

    /// Returns the time for which the device was away in all.
    pub(crate) fn absent(&self) -> Duration {
        self.absent + self.away().unwrap_or_default()
    }

    fn away(&self) -> Option<Duration> {
        self.away.map(|(since, _)| since.elapsed())
    }

    /// Prints the counts of repeated lines at the end of the run. Returns the fault if the device is away, or
    /// its line is down.
    pub(crate) fn end(&mut self) -> Option<String> {
        self.lines.end();
        // A reset just before the end is no fault: the run no longer needs the device.
        let is_fault = |(since, is_reset): &(Instant, bool)| !is_reset || since.elapsed() >= RESET_WITHIN;
        let away = self.away.filter(is_fault).map(|(since, _)| since.elapsed().as_secs_f64());
        let name = &self.device.name;
        away.map(|away| format!("{name}: it was away when the run ended, for {away:.1} s by then"))
    }

    /// Returns the fault of a run that ends while the line is down.
    pub(crate) fn line_fault(&self) -> Option<String> {
        self.line.fault(&self.device, Instant::now())
    }
}
