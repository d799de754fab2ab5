//! Settings read from parameters: a struct that derives `Deserialize` takes those of its fields' names.

use super::{LabError, Parameters};
use serde::de::value::MapDeserializer;
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use wharf_sim::harness::Timing;

/// The numbers for one run: the parameters, and those that the run gives itself.
///
/// A field takes the number of its name. In a struct within another it takes, before that, the number with
/// the outer field's name and an underscore before its own: `pair_ns` in `lock` is `lock_pair_ns`.
#[derive(Debug, Clone)]
pub struct Settings<'a> {
    parameters: &'a Parameters,
    prefix: &'a str,
    given: Vec<(&'static str, u64)>,
}

impl Parameters {
    /// Returns settings from these parameters.
    pub fn settings(&self) -> Settings<'_> {
        Settings { parameters: self, prefix: "", given: Vec::new() }
    }

    /// Reads a struct of settings.
    ///
    /// # Errors
    /// As [`Settings::read`].
    pub fn read_into<T: DeserializeOwned>(&self) -> Result<T, LabError> {
        self.settings().read()
    }

    /// Reads the times of a model's run, whose generator has `seed`.
    ///
    /// # Errors
    /// As of [`Settings::read`].
    pub fn timing(&self, seed: u64) -> Result<Timing, LabError> {
        self.settings().with("seed", seed).read()
    }
}

impl<'a> Settings<'a> {
    /// Prefers parameters whose names begin with `prefix` and an underscore.
    pub fn of(self, prefix: &'a str) -> Self {
        Self { prefix, ..self }
    }

    /// Gives a field a number in place of the parameter's.
    pub fn with(mut self, key: &'static str, value: u64) -> Self {
        self.given.push((key, value));
        self
    }

    /// Reads a struct: numbers by name, flags as numbers above 0.
    ///
    /// # Errors
    /// [`LabError::Key`]: no parameter has a field's name; [`LabError::File`]: the field cannot hold it.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, LabError> {
        T::deserialize(Field { settings: self, path: Vec::new() })
    }

    fn number(&self, key: &str) -> Option<u64> {
        let given = self.given.iter().find(|(name, _)| *name == key).map(|given| given.1);
        given.or_else(|| self.parameters.get(key).ok())
    }
}

/// A field to be read: its name is the last of `path`.
struct Field<'a> {
    settings: &'a Settings<'a>,
    path: Vec<&'static str>,
}

impl Field<'_> {
    /// Returns the number, by the longest name first.
    fn find(&self) -> Option<u64> {
        let names = || (0..self.path.len()).map(|from| self.path[from..].join("_"));
        let prefixed = names().map(|name| format!("{}_{name}", self.settings.prefix));
        prefixed.chain(names()).find_map(|name| self.settings.number(&name))
    }

    fn need(&self) -> Result<u64, LabError> {
        let key = self.path.last().copied().unwrap_or_default();
        self.find().map_or_else(|| self.settings.parameters.get(key), Ok)
    }
}

impl<'de> Deserializer<'de> for Field<'_> {
    type Error = LabError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, LabError> {
        let number = self.need()?;
        let fault = |fault| LabError::File { file: self.path.join("."), what: format!("{fault}") };
        visitor.visit_u64(number).map_err(|error: LabError| fault(error))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, LabError> {
        visitor.visit_bool(self.need()? > 0)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self, _: &'static str, fields: &'static [&'static str], visitor: V,
    ) -> Result<V::Value, LabError> {
        let Self { settings, path } = self;
        let field = |&name: &&'static str| (name, Field { settings, path: [&path[..], &[name]].concat() });
        visitor.visit_map(MapDeserializer::new(fields.iter().map(field)))
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, LabError> for Field<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl serde::de::Error for LabError {
    fn custom<T: std::fmt::Display>(what: T) -> Self {
        Self::File { file: "parameters".into(), what: what.to_string() }
    }
}
