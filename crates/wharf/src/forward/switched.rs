//! `Switched`: the ports of a switch, which are opened together, and plugged and unplugged while it runs.

use super::direction::{Direction, Summary};
use super::end::End;
use super::line::Lines;
use super::switch::{PORTS_MAX, Switch};
use super::{Forward, ForwardError, ForwardSettings};
use crate::port::PortBuilder;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wharf_core::host::Clock;
use wharf_core::pool::PagePool;
use wharf_devices::host::HostClock;
use wharf_devices::spec::Opened;

/// Least frames of memory for each port.
const FRAMES_MIN: usize = 2048;

/// Most sums of unplugged ports: those of further ends are one.
const GONE_MAX: usize = 32;
/// The name of that one.
const OTHERS: &str = "(other ports)";

/// See the module.
#[derive(Debug)]
pub(super) struct Switched {
    switch: Arc<Switch>,
    /// The memory of all ports.
    pool: PagePool,
    /// The number of each port, in the order of the directions.
    numbers: Vec<usize>,
    /// What ports have counted that were unplugged, those of one end together.
    gone: Vec<Summary>,
    tick: Duration,
    /// When stations last grew older, on the host's clock.
    last_ns: Mutex<u64>,
}

/// Takes the devices of ends that are open.
fn opened(mut builders: Vec<PortBuilder>) -> Result<(Vec<End>, Vec<Vec<Opened>>), ForwardError> {
    let devices: Vec<_> = builders.iter_mut().map(PortBuilder::take_devices).collect();
    let end = |(builder, devices): (PortBuilder, &Vec<Opened>)| match devices.first() {
        Some(first) => End::of(builder, first),
        None => Err(fault("a port", "it has no queue")),
    };
    let ends = builders.into_iter().zip(&devices).map(end).collect::<Result<_, _>>()?;
    Ok((ends, devices))
}

fn fault(port: &str, what: impl Into<String>) -> ForwardError {
    ForwardError::Port { port: port.into(), what: what.into() }
}

impl Forward {
    pub(super) fn start_switch(
        builders: Vec<PortBuilder>, settings: &ForwardSettings,
    ) -> Result<Self, ForwardError> {
        if !(3..=PORTS_MAX).contains(&builders.len()) {
            return Err(fault("a switch", format!("it has 3 to {PORTS_MAX} ports")));
        }
        let (ends, devices) = opened(builders)?;
        let others_send = |at: usize| (0..ends.len()).any(|other| other != at && ends[other].sends);
        if !(0..ends.len()).any(|at| ends[at].receives && others_send(at)) {
            return Err(fault("a switch", "no port receives frames that another could send"));
        }
        settings.check_vlans(&ends)?;
        let (all, switch) = (devices.iter().map(Vec::len).sum(), Switch::new());
        let pool = settings.pool_of(&ends, all)?;
        let mut this = Self { pollers: Vec::new(), directions: Vec::new(), ports: Vec::new(), switch: None };
        let (tick, last_ns) = (Switch::tick_of(settings.age), Mutex::new(HostClock.now_ns()));
        let mut switched = Switched { switch, pool, numbers: Vec::new(), gone: Vec::new(), tick, last_ns };
        this.join(&mut switched, 0, (ends, devices), settings)?;
        this.switch = Some(switched);
        Ok(this)
    }

    /// Opens ports of a switch, the first of which has this number.
    fn join(
        &mut self, switched: &mut Switched, first: usize, (ends, devices): (Vec<End>, Vec<Vec<Opened>>),
        settings: &ForwardSettings,
    ) -> Result<(), ForwardError> {
        let direction = |(at, end): (usize, &End)| {
            Some(Direction::new(&format!("p{}", first + at + 1), end.name.clone(), end.name.clone()))
        };
        let directions = ends.iter().enumerate().map(direction).collect();
        let (all, ports) = (devices.iter().map(Vec::len).sum(), Vec::new());
        let queues = devices.iter().map(Vec::len).max().unwrap_or(1);
        let lacking = settings.pollers.map_or(all, |asked| asked.max(1).saturating_sub(self.pollers.len()));
        let made = settings.further_pollers(lacking.min(all), &self.pollers);
        let mut pollers = if made.is_empty() { self.pollers.clone() } else { made.clone() };
        if made.is_empty() {
            // There are as many as were asked for: a port that is plugged has one of them, in turn.
            pollers.rotate_left(self.ports.len() % self.pollers.len());
        }
        let mut lines = Lines { settings, ends, pollers, queues, directions, ports, is_switch: true };
        let count = devices.len();
        if let Err(error) = lines.connect(&switched.switch, &switched.pool, first, devices) {
            (first..first + count).for_each(|number| switched.switch.leave(number));
            return Err(error);
        }
        switched.numbers.extend(first..first + lines.ports.len());
        self.pollers.extend(made);
        self.ports.extend(lines.ports);
        self.directions.extend(lines.directions.into_iter().flatten());
        Ok(())
    }

    /// Adds a port to a switch: its direction is the last. One queue of it is opened, unless some are open
    /// already ([`Forward::open`]).
    ///
    /// # Errors
    /// [`ForwardError`]: above all, a device's error as it is opened; no switch, no memory for another port.
    pub fn plug(&mut self, end: PortBuilder, settings: &ForwardSettings) -> Result<(), ForwardError> {
        let Some(mut switched) = self.switch.take() else {
            return Err(fault("two ends", "they are no switch: it has three, or more"));
        };
        let plugged = self.plug_into(&mut switched, end, settings);
        self.switch = Some(switched);
        plugged
    }

    fn plug_into(
        &mut self, switched: &mut Switched, end: PortBuilder, settings: &ForwardSettings,
    ) -> Result<(), ForwardError> {
        let ends = opened(Self::open(vec![end], 1)?)?;
        let name = &ends.0[0].name;
        let Some(number) = (0..PORTS_MAX).find(|number| !switched.numbers.contains(number)) else {
            return Err(fault(name, format!("the switch has {PORTS_MAX} ports")));
        };
        if switched.pool.frames() as usize / (self.ports.len() + 1) < FRAMES_MIN {
            return Err(fault(name, "the memory is too small for another port"));
        }
        self.join(switched, number, ends, settings)
    }

    /// Takes the port of direction `at` off a switch. Its frames inside come back unsent.
    pub fn unplug(&mut self, at: usize) {
        let Some(switched) = self.switch.as_mut().filter(|_| at < self.directions.len()) else { return };
        let number = switched.numbers.remove(at);
        switched.switch.leave(number);
        let (summary, ports) = (self.directions.remove(at).close(), self.ports.remove(at));
        // Its handler may have learnt stations until it was closed: the next port of this number has none.
        switched.switch.forget(number);
        summary.queues.iter().for_each(|queue| drop(queue.shutdown(Duration::ZERO)));
        ports.iter().for_each(|port| drop(port.close(Duration::ZERO)));
        let (count, gone) = (switched.gone.len(), &mut switched.gone);
        let own = gone.iter().position(|gone| gone.to == summary.to);
        match own.or((count == GONE_MAX).then_some(GONE_MAX - 1)) {
            Some(at) => gone[at].add(summary),
            // The last one is for all further ends.
            None if count == GONE_MAX - 1 => gone.push(summary.named(OTHERS)),
            None => gone.push(summary),
        }
        self.pollers.retain(|pollers| pollers.is_serving());
    }

    /// Returns what unplugged ports have counted.
    pub(super) fn take_gone(&mut self) -> Vec<Summary> {
        self.switch.take().map_or(Vec::new(), |switched| switched.gone)
    }

    /// Has a switch forget the stations that it has not seen for long. The supervising thread calls it now
    /// and then.
    pub fn note_time(&self) {
        let Some(Switched { switch, tick, last_ns, .. }) = &self.switch else { return };
        let (mut last_ns, now_ns) = (wharf_mem::lock(last_ns), HostClock.now_ns());
        if now_ns.saturating_sub(*last_ns) >= tick.as_nanos() as u64 {
            *last_ns = now_ns;
            switch.grow_older();
        }
    }

    /// Returns the number of stations that a switch knows at the port of direction `at`; `None` if it is no
    /// switch.
    pub fn stations(&self, at: usize) -> Option<u32> {
        let Switched { switch, numbers, .. } = self.switch.as_ref()?;
        Some(switch.stations(*numbers.get(at)?))
    }
}
