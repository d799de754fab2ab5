//! The costs of a machine: a file of numbers, assumed, written by hand, or measured by `wharf lab calibrate`.

use crate::experiment::LabError;
use serde::Deserialize;

/// The machine of scenarios that name none.
const ASSUMED: &str = include_str!("../../machines/assumed.toml");
/// The longest cost.
const COST_MAX_NS: u64 = 1_000_000_000;

/// Times in nanoseconds, as the model of the path charges them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Processors.
    pub cpus: usize,
    /// Taking a frame and making a packet.
    pub make_ns: u64,
    /// A read of the exact clock. A file without it has 0.
    #[serde(default)]
    pub clock_ns: u64,
    /// Putting a packet into the sender's lane.
    pub stage_ns: u64,
    /// Taking it out of the lane and through the discipline.
    pub pull_ns: u64,
    /// The same, more, if another processor made it.
    pub remote_ns: u64,
    /// The device's driver, per packet, of a device that takes no time.
    pub driver_ns: u64,
    /// The same of a wire.
    pub wire_driver_ns: u64,
    /// The device's driver, more per packet of a wire with one sender, which waits for completions. A file without it has 0.
    #[serde(default)]
    pub wire_alone_ns: u64,
    /// A call of the device, or a doorbell.
    pub call_ns: u64,
    /// A completed packet, until its frame is with its sender again.
    pub reclaim_ns: u64,
    /// An access to the owner word in this processor's cache.
    pub hit_ns: u64,
    /// The word's transfer from another processor.
    pub transfer_ns: u64,
    /// The time by which a sleep is longer than it was to be. A file without it has 0.
    #[serde(default)]
    pub late_ns: u64,
    /// The time from a wake-up until the thread runs. A file without it has 0.
    #[serde(default)]
    pub wake_ns: u64,
    /// The time until a sender that could not go on looks again.
    pub again_ns: u64,
    /// A look of an owner that waits, or of a sender.
    pub look_ns: u64,
    /// A pause of a dedicated owner, which makes some between two rounds. A file without it has 0.
    #[serde(default)]
    pub pause_ns: u64,
    /// The lines of a lane, from a sender to a dedicated owner, or back. A file without it has 0.
    #[serde(default)]
    pub lane_ns: u64,
    /// A time slice of threads that share a processor.
    pub slice_ns: u64,
    /// A switch between them.
    pub switch_ns: u64,
    /// Time between two timer interrupts.
    pub tick_every_ns: u64,
    /// The time of one.
    pub tick_cost_ns: u64,
    /// Thousandths by which times of making a packet vary.
    pub jitter_permille: u64,
}

impl Machine {
    /// Returns the machine of scenarios that name none. Its numbers are assumed.
    ///
    /// # Errors
    /// [`LabError::File`].
    pub fn assumed() -> Result<Self, LabError> {
        Self::parse("assumed.toml", ASSUMED)
    }

    /// Parses the file of this name.
    ///
    /// # Errors
    /// [`LabError::File`].
    pub fn parse(file: &str, text: &str) -> Result<Self, LabError> {
        let fault = |what: String| LabError::File { file: file.into(), what };
        let machine: Self =
            toml::from_str(text).map_err(|error| fault(error.message().trim().replace('\n', " ")))?;
        if !(1..=256).contains(&machine.cpus) {
            return Err(fault(format!("cpus: {} cannot be: 1 to 256", machine.cpus)));
        }
        if machine.jitter_permille > 999 {
            return Err(fault(format!("jitter_permille: {} cannot be: 0 to 999", machine.jitter_permille)));
        }
        if let Some((name, ns)) = machine.costs().into_iter().find(|&(_, ns)| ns > COST_MAX_NS) {
            return Err(fault(format!("{name}: {ns} cannot be: at most {COST_MAX_NS}")));
        }
        if machine.make_ns == 0 || machine.again_ns == 0 || machine.look_ns == 0 {
            return Err(fault("make_ns, again_ns, look_ns: 0 cannot be: at least 1".into()));
        }
        Ok(machine)
    }

    /// Returns all times, by name.
    fn costs(&self) -> [(&'static str, u64); 22] {
        [
            ("make_ns", self.make_ns),
            ("clock_ns", self.clock_ns),
            ("stage_ns", self.stage_ns),
            ("pull_ns", self.pull_ns),
            ("remote_ns", self.remote_ns),
            ("driver_ns", self.driver_ns),
            ("wire_driver_ns", self.wire_driver_ns),
            ("wire_alone_ns", self.wire_alone_ns),
            ("call_ns", self.call_ns),
            ("reclaim_ns", self.reclaim_ns),
            ("hit_ns", self.hit_ns),
            ("transfer_ns", self.transfer_ns),
            ("late_ns", self.late_ns),
            ("wake_ns", self.wake_ns),
            ("again_ns", self.again_ns),
            ("look_ns", self.look_ns),
            ("pause_ns", self.pause_ns),
            ("lane_ns", self.lane_ns),
            ("slice_ns", self.slice_ns),
            ("switch_ns", self.switch_ns),
            ("tick_every_ns", self.tick_every_ns),
            ("tick_cost_ns", self.tick_cost_ns),
        ]
    }

    /// Returns the file with these numbers; `head` says where they come from.
    pub fn to_toml(&self, head: &str) -> String {
        let comment: String = head.lines().map(|line| format!("# {line}\n")).collect();
        let costs = self.costs().map(|(name, ns)| format!("{name} = {ns}\n")).concat();
        format!("{comment}\ncpus = {}\n{costs}jitter_permille = {}\n", self.cpus, self.jitter_permille)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_survives_its_file() {
        let machine = Machine::assumed().unwrap();
        assert_eq!(Machine::parse("m", &machine.to_toml("two\nlines")).unwrap(), machine);
        for (from, to, told) in [
            ("cpus = ", "cpus = 0 #", "cpus: 0 cannot be"),
            ("make_ns = ", "make_ns = 0 #", "at least 1"),
            ("pull_ns = ", "wrong_ns = 1\npull_ns = ", "unknown field"),
            ("look_ns = ", "look_ns = 2000000000 #", "at most"),
        ] {
            let error = Machine::parse("m", &ASSUMED.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(told) && error.lines().count() == 1, "{error}");
        }
    }
}
