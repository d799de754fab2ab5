//! The planner: the packet rate that a server can carry, and the part that limits it. It compares the
//! transfers of a NIC's description with the bus, the wire, the processors and their memory.
//!
//! All arithmetic is in integers, so that an answer is the same to the byte on every machine. Interrupts are
//! not charged. Each part is looked at alone; queueing for two parts at once needs a model in virtual time.

mod answer;
pub mod band;
pub mod chart;
mod limits;
mod load;
mod page;
mod report;

pub use answer::{Answer, Target, mpps};
pub use limits::{Direction, Limit, Outcome, Part};
pub use load::{CHECK_BYTES, CORES, Load, LoadError, SIZES, Sweep};
pub use page::page;
pub use report::Report;

use crate::nics::{Choice, Description, Feature, FileError, Nic};
use crate::pcie::Link;
use std::cmp::Reverse;

/// A question.
#[derive(Debug, Clone)]
pub struct Question {
    /// Packets.
    pub load: Load,
    /// Processors that handle packets.
    pub cores: u32,
    /// The direction whose figures come first.
    pub direction: Direction,
    /// The rate to be carried; by default the wire's speed.
    pub target: Option<Target>,
    /// A link in place of the description's.
    pub link: Option<Link>,
    /// Features and numbers set.
    pub choice: Choice,
}

/// The effect of one feature, with all others unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureOutcome {
    /// Its name.
    pub name: String,
    /// Its description.
    pub what: String,
    /// True if it is on in the question.
    pub on: bool,
    /// Packets a second with it: sending, receiving and both.
    pub with: [u64; 3],
    /// Packets a second without it.
    pub without: [u64; 3],
    /// The command that switches it, with `IF` for the interface and `ON` for on or off; none if no command does.
    pub command: Option<String>,
}

impl FeatureOutcome {
    /// True if it changes the rate in `direction`.
    pub fn has_effect(&self, direction: Direction) -> bool {
        self.with[direction as usize] != self.without[direction as usize]
    }

    /// Returns the command that switches it to the better side for `direction`, if it is on the other one.
    fn improvement(&self, direction: Direction, interface: &str) -> Option<String> {
        let at = direction as usize;
        let better = self.with[at] > self.without[at];
        let is_due = self.has_effect(direction) && better != self.on;
        let state = if better { "on" } else { "off" };
        let command = self.command.as_ref().filter(|_| is_due)?;
        let word = |word| match word {
            "IF" => interface,
            "ON" => state,
            word => word,
        };
        Some(command.split(' ').map(word).collect::<Vec<_>>().join(" "))
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The NIC under the question's choice.
    pub nic: Nic,
    /// Its link.
    pub link: Link,
    /// Sending, receiving and both at once.
    pub outcomes: [Outcome; 3],
    /// The effect of each feature.
    pub features: Vec<FeatureOutcome>,
    /// All compatible features.
    pub together: [Outcome; 3],
    /// The features that are on then.
    pub together_on: Vec<String>,
    /// The verdict on the target.
    pub answer: Answer,
    /// Measurements where the same part stops the planner; none if there is no published one.
    pub band: Option<band::Band>,
}

impl Plan {
    /// Returns the commands that raise the rate in `direction`, for the interface of this name.
    pub fn improvements(&self, direction: Direction, interface: &str) -> Vec<String> {
        self.features.iter().filter_map(|feature| feature.improvement(direction, interface)).collect()
    }

    /// Returns the band in words, if there is one, and the counter that confirms the limit.
    pub fn confirmation(&self, direction: Direction, interface: &str) -> Vec<String> {
        let Outcome { binding, pps, .. } = &self.outcomes[direction as usize];
        let is_mlx5 = self.nic.drivers.iter().any(|driver| driver.starts_with("mlx5"));
        let counter = binding.confirmed_by(is_mlx5).replace("IF", interface);
        let band = self.band.map(|band| band.words(*binding, *pps));
        band.into_iter()
            .chain([format!("To confirm that the limit is the {}: {counter}.", binding.words())])
            .collect()
    }

    /// Returns the names of the features that do not change the rate in `direction`.
    pub fn without_effect(&self, direction: Direction) -> Vec<&str> {
        let idle = self.features.iter().filter(|feature| !feature.has_effect(direction));
        idle.map(|feature| feature.name.as_str()).collect()
    }
}

/// Answers a question.
///
/// # Errors
/// [`FileError`] for a feature or number of the question's that the description does not have.
pub fn plan(description: &Description, question: &Question) -> Result<Plan, FileError> {
    let nic = nic_of(description, question, &question.choice)?;
    let features = feature_outcomes(description, question);
    let all = all_together(description, question, &features);
    let together_on: Vec<String> = description.switched_on(&all).into_iter().map(str::to_string).collect();
    let outcomes = outcomes(description, question, &question.choice)?;
    let together = self::outcomes(description, question, &all)?;
    let answer = Answer::new(&nic, question, &outcomes, &together, &features);
    let band = band::Band::of(outcomes[question.direction as usize].binding, &nic.name);
    Ok(Plan { link: nic.link, nic, outcomes, features, together, together_on, answer, band })
}

/// Returns the rates for each size of a sweep, as asked for and with all features.
///
/// # Errors
/// The errors of [`plan`].
pub fn sweep(
    description: &Description, question: &Question, sweep: &Sweep,
) -> Result<Vec<SweepRow>, FileError> {
    let nic = nic_of(description, question, &question.choice)?;
    let features = feature_outcomes(description, question);
    let best = nic_of(description, question, &all_together(description, question, &features))?;
    let row = |size| {
        let question = Question { load: Load::one_size(size), ..question.clone() };
        let outcome = |nic: &Nic| Outcome::new(nic, &question, question.direction);
        SweepRow { size, outcome: outcome(&nic), together_pps: outcome(&best).pps }
    };
    Ok(sweep.sizes().map(row).collect())
}

/// A size of a sweep.
#[derive(Debug, Clone)]
pub struct SweepRow {
    /// Bytes of the frame.
    pub size: u32,
    /// The outcome as asked for.
    pub outcome: Outcome,
    /// Packets a second with all features.
    pub together_pps: u64,
}

fn nic_of(description: &Description, question: &Question, choice: &Choice) -> Result<Nic, FileError> {
    let mut nic = description.nic(choice)?;
    nic.link = question.link.unwrap_or(nic.link);
    Ok(nic)
}

fn outcomes(
    description: &Description, question: &Question, choice: &Choice,
) -> Result<[Outcome; 3], FileError> {
    let nic = nic_of(description, question, choice)?;
    Ok(Direction::ALL.map(|direction| Outcome::new(&nic, question, direction)))
}

/// Returns the effect of each feature. A feature that conflicts with the numbers set is left out.
fn feature_outcomes(description: &Description, question: &Question) -> Vec<FeatureOutcome> {
    let are_on = description.switched_on(&question.choice);
    let rates = |name: &str, on| {
        let choice = switched(description, question, name, on);
        Some(outcomes(description, question, &choice).ok()?.map(|outcome| outcome.pps))
    };
    let one = |feature: &Feature| {
        Some(FeatureOutcome {
            name: feature.name.clone(),
            what: feature.what.clone(),
            on: are_on.contains(&feature.name.as_str()),
            with: rates(&feature.name, true)?,
            without: rates(&feature.name, false)?,
            command: feature.command.clone(),
        })
    };
    description.features().iter().filter_map(one).collect()
}

/// Returns the question's choice with one feature on or off; features that it excludes go off.
fn switched(description: &Description, question: &Question, name: &str, on: bool) -> Choice {
    let mut choice = question.choice.clone();
    if on {
        let excludes = |one: &str, other: &str| {
            description
                .features()
                .iter()
                .any(|feature| feature.name == one && feature.excludes.iter().any(|name| name == other))
        };
        choice.features.retain(|other, _| !(excludes(name, other) || excludes(other, name)));
    }
    choice.features.insert(name.into(), on);
    choice
}

/// Switches on all features that neither exclude one that is on nor were switched off by hand. Of features
/// that exclude each other, the one with the greater effect goes first.
fn all_together(description: &Description, question: &Question, features: &[FeatureOutcome]) -> Choice {
    let at = question.direction as usize;
    let mut all = question.choice.clone();
    all.features
        .extend(description.switched_on(&question.choice).iter().map(|name| (name.to_string(), true)));
    let mut best: Vec<&FeatureOutcome> = features.iter().collect();
    best.sort_by_key(|feature| Reverse(feature.with[at]));
    for feature in best {
        if all.features.contains_key(&feature.name) {
            continue;
        }
        let mut more = all.clone();
        more.features.insert(feature.name.clone(), true);
        // A feature excluded by one that is on is an error here.
        if description.nic(&more).is_ok() {
            all = more;
        }
    }
    all
}
