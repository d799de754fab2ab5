//! Reader of specifications that shells can complete: it lists the words with which one begins.

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, Error};
use std::ffi::OsStr;
use wharf_devices::registry::Registry;
use wharf_devices::spec::{Direction, Place};

/// Returns the beginnings of the devices that can go in `direction`: `null`, `packet:`.
pub(super) fn beginnings(registry: &Registry, direction: Direction) -> Vec<String> {
    let can = registry.kinds().iter().filter(|kind| match direction {
        Direction::Send => kind.can.send,
        Direction::Receive => kind.can.receive,
        Direction::Both => true,
    });
    can.map(|kind| if kind.place == Place::Nowhere { kind.name.into() } else { format!("{}:", kind.name) })
        .collect()
}

/// A reader, and the beginnings of the texts that it takes.
#[derive(Debug, Clone)]
pub(super) struct Spec<F> {
    pub(super) read: F,
    pub(super) names: Vec<String>,
}

impl<F: TypedValueParser> TypedValueParser for Spec<F> {
    type Value = F::Value;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, text: &OsStr) -> Result<F::Value, Error> {
        self.read.parse_ref(command, arg, text)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.names.iter().map(PossibleValue::new)))
    }
}
