//! Links as text: `gen3x16`, `gen4x8,mps=512,mrrs=1024,rcb=128`.

use super::link::{BOUNDARIES, LANES, SIZES};
use super::{Completions, Generation, Link, LinkError};
use std::fmt;
use std::str::FromStr;

const KEYS: &str = "mps, mrrs, rcb, completions";

fn fault(key: &'static str, value: &str, allowed: impl Into<String>) -> LinkError {
    LinkError { key, value: format!("\"{}\"", value.escape_debug()), allowed: allowed.into() }
}

/// Parses a number. The error lists the allowed numbers.
fn number(key: &'static str, text: &str, allowed: &[u32]) -> Result<u32, LinkError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or_else(|| {
        let names: Vec<String> = allowed.iter().map(u32::to_string).collect();
        fault(key, text, format!("one of {}", names.join(", ")))
    })
}

impl FromStr for Link {
    type Err = LinkError;

    /// Parses `genGxL[,mps=..][,mrrs=..][,rcb=..][,completions=payload|boundary]`.
    fn from_str(text: &str) -> Result<Self, LinkError> {
        let mut parts = text.split(',');
        let mut link = speed(parts.next().unwrap_or_default())?;
        let mut seen: Vec<&str> = Vec::new();
        for part in parts {
            let allowed = || format!("key=value, where the keys are {KEYS}");
            let (key, value) = part.split_once('=').ok_or_else(|| fault("link", part, allowed()))?;
            if seen.contains(&key) {
                return Err(fault("link", key, "each key once"));
            }
            seen.push(key);
            link = match key {
                "mps" => link.mps(number("mps", value, &SIZES)?)?,
                "mrrs" => link.mrrs(number("mrrs", value, &SIZES)?)?,
                "rcb" => link.rcb(number("rcb", value, &BOUNDARIES)?)?,
                "completions" => link.completions(value.parse()?),
                _ => return Err(fault("link", key, format!("the keys are {KEYS}"))),
            };
        }
        Ok(link)
    }
}

/// Parses `gen3x16`.
fn speed(text: &str) -> Result<Link, LinkError> {
    let want = || fault("link", text, "generation and lanes, such as gen3x16");
    let (generation, lanes) =
        text.strip_prefix("gen").and_then(|rest| rest.split_once('x')).ok_or_else(want)?;
    let numbers: Vec<u32> = Generation::ALL.iter().map(|generation| generation.number()).collect();
    let found = Generation::from_number(number("generation", generation, &numbers)?);
    let found = found.ok_or_else(|| fault("generation", generation, "one of 1, 2, 3, 4, 5, 6"))?;
    Link::new(found, number("lanes", lanes, &LANES)?)
}

impl FromStr for Completions {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Self, LinkError> {
        match text {
            "payload" => Ok(Self::Payload),
            "boundary" => Ok(Self::Boundary),
            _ => Err(fault("completions", text, "payload or boundary")),
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gen{}x{},mps={}", self.generation().number(), self.lanes(), self.mps_bytes())?;
        write!(f, ",mrrs={},rcb={}", self.mrrs_bytes(), self.rcb_bytes())?;
        match self.completion_cut() {
            Completions::Payload => Ok(()),
            Completions::Boundary => write!(f, ",completions=boundary"),
        }
    }
}
