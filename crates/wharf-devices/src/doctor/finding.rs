//! `Finding`: one thing that was found about a device, with the command that mends it.

use crate::spec::words::Direction;

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Subject, in a word that stays: `driver`, `queues`, `program`, `kernel`.
    pub subject: &'static str,
    /// Weight for the device.
    pub weight: Weight,
    /// One sentence for people.
    pub what: String,
    /// Command that mends it, or advice.
    pub mend: Option<String>,
    /// Values for programs, by name.
    pub data: Vec<(&'static str, Datum)>,
}

/// The weight of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Informational: nothing to change.
    Fact,
    /// The device works, and would work better otherwise.
    Hint,
    /// The device cannot be used in this direction; [`Direction::Both`] stands for any.
    Obstacle(Direction),
}

/// A value for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Datum {
    /// A text.
    Text(String),
    /// A number.
    Number(u64),
    /// True or false.
    Flag(bool),
}

impl From<&str> for Datum {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Datum {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u32> for Datum {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u64> for Datum {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Datum {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl Finding {
    fn new(subject: &'static str, weight: Weight, what: impl Into<String>) -> Self {
        Self { subject, weight, what: what.into(), mend: None, data: Vec::new() }
    }

    /// Makes a finding that is neither good nor bad.
    pub fn fact(subject: &'static str, what: impl Into<String>) -> Self {
        Self::new(subject, Weight::Fact, what)
    }

    /// Makes a finding that keeps the device from its best.
    pub fn hint(subject: &'static str, what: impl Into<String>) -> Self {
        Self::new(subject, Weight::Hint, what)
    }

    /// Makes a finding that prevents `direction`.
    pub fn obstacle(subject: &'static str, direction: Direction, what: impl Into<String>) -> Self {
        Self::new(subject, Weight::Obstacle(direction), what)
    }

    /// Sets the command or advice.
    #[must_use]
    pub fn mend(mut self, command: impl Into<String>) -> Self {
        self.mend = Some(command.into());
        self
    }

    /// Adds a value for programs.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Datum>) -> Self {
        self.data.push((name, value.into()));
        self
    }

    /// True if the device cannot be used in `direction` because of it.
    pub fn prevents(&self, direction: Direction) -> bool {
        match self.weight {
            Weight::Obstacle(prevented) => {
                prevented == direction || prevented == Direction::Both || direction == Direction::Both
            }
            Weight::Fact | Weight::Hint => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_obstacle_to_one_direction_prevents_both_at_once() {
        let to_receive = Finding::obstacle("program", Direction::Receive, "there is one");
        let prevents = |direction| to_receive.prevents(direction);
        assert_eq!([Direction::Send, Direction::Receive, Direction::Both].map(prevents), [false, true, true]);
        assert!(Finding::obstacle("interface", Direction::Both, "none").prevents(Direction::Send));
        assert!(!Finding::hint("pages", "none free").prevents(Direction::Both));
    }
}
