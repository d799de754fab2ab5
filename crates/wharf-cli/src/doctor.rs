//! `wharf doctor`: whether a device can be used here, how well, and what would make it better.

mod table;

use crate::args::DoctorArgs;
use crate::next_hop;
use crate::output::{note, print, print_json};
use crate::usage;
use anyhow::bail;
use serde_json::{Map, Value, json};
use wharf_devices::doctor::{Datum, Diagnosis, Effect, Exam, Finding, Trial, Weight, diagnose};
use wharf_devices::interfaces::HostInterface;
use wharf_devices::registry::Registry;
use wharf_devices::spec::{DeviceSpec, Direction};

/// A device, and what was found out about it.
struct Examined {
    spec: DeviceSpec,
    diagnosis: Diagnosis,
}

/// Examines a device, or each device that can use an interface.
pub(crate) fn doctor(args: &DoctorArgs, registry: &Registry) -> anyhow::Result<()> {
    let examined: Vec<Examined> = subjects(&args.subject, registry)?
        .into_iter()
        .map(|spec| {
            let exam = exam(args, &spec);
            announce(&spec, &exam);
            let mut diagnosis = diagnose(&spec, &exam);
            diagnosis.findings.extend(next_hop::not_followed(&spec));
            Examined { spec, diagnosis }
        })
        .collect();
    let is_usable = examined.iter().any(|one| is_usable(&one.diagnosis));
    if args.json {
        let devices: Vec<Value> = examined.iter().map(as_json).collect();
        print_json(&json!({ "usable": is_usable, "devices": devices }))?;
    } else {
        let pages: Vec<String> = examined.iter().map(table::page).collect();
        print(&pages.join("\n\n"))?;
    }
    if !is_usable {
        bail!("{}", complaint(&examined));
    }
    Ok(())
}

/// Returns the device that `text` specifies, or those that can use the interface of that name.
fn subjects(text: &str, registry: &Registry) -> anyhow::Result<Vec<DeviceSpec>> {
    let error = match registry.parse(text) {
        Ok(spec) => return Ok(vec![spec]),
        Err(error) => error,
    };
    let Some(interface) = HostInterface::find(text) else { return Err(usage(error)) };
    let kinds = registry.kinds().iter().filter(|kind| interface.is_for(kind));
    let specs: Result<Vec<DeviceSpec>, _> =
        kinds.map(|kind| registry.parse(&format!("{}:{text}", kind.name))).collect();
    match specs {
        Ok(specs) if specs.is_empty() => {
            bail!("{text}: no device can use it: its frames have no Ethernet header")
        }
        specs => specs.map_err(usage),
    }
}

fn exam(args: &DoctorArgs, spec: &DeviceSpec) -> Exam {
    let mut exam = Exam::of(spec);
    if let Some(direction) = args.direction {
        exam.directions = vec![direction];
    }
    (exam.opens, exam.probes) = (!args.no_probe, args.probe);
    exam.takes_host = args.take_host;
    exam.pool = args.memory.pool();
    exam
}

/// Says what the trials are going to do to others, each effect once.
fn announce(spec: &DeviceSpec, exam: &Exam) {
    let effect = |direction: &Direction| match (spec.kind().doctor.effect)(spec, *direction) {
        Effect::Short(what) | Effect::Reset(what) => Some(what),
        Effect::None | Effect::Lasting(_) => None,
    };
    let tried = exam.directions.iter().filter(|direction| exam.untried(spec, **direction).is_none());
    let mut effects: Vec<String> = tried.filter_map(effect).collect();
    effects.dedup();
    for what in &effects {
        note(&format!("{}: {what} (--no-probe leaves that out)", spec.name()));
    }
}

/// True if the device can be used in each direction that was examined.
fn is_usable(diagnosis: &Diagnosis) -> bool {
    diagnosis.trials.iter().all(|(direction, _)| diagnosis.is_usable(*direction))
}

/// Returns the line that ends a diagnosis of what cannot be used: the first cause.
fn complaint(examined: &[Examined]) -> String {
    let causes = examined.iter().flat_map(|Examined { spec, diagnosis }| {
        let failed = diagnosis.trials.iter().filter(|(direction, _)| !diagnosis.is_usable(*direction));
        failed.map(move |(direction, trial)| (spec, direction, trial, diagnosis))
    });
    let cause = causes.map(|(spec, direction, trial, diagnosis)| match trial {
        Trial::Refused { why } => format!("cannot {}: {why}", verb(*direction)),
        _ => {
            let found = diagnosis.findings.iter().find(|finding| finding.prevents(*direction));
            let found = found.map_or("", |finding| &finding.what);
            format!("{} cannot {}: {found}", spec.name(), verb(*direction))
        }
    });
    cause.into_iter().next().unwrap_or_else(|| "there is no device".into())
}

/// Returns a direction as a verb.
fn verb(direction: Direction) -> &'static str {
    match direction {
        Direction::Send => "send",
        Direction::Receive => "receive",
        Direction::Both => "send and receive at once",
    }
}

/// Returns a direction in the word of the JSON, which is that of `--for`.
fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Send => "send",
        Direction::Receive => "receive",
        Direction::Both => "both",
    }
}

/// Returns a diagnosis as JSON. The keys are a promise.
fn as_json(examined: &Examined) -> Value {
    let Examined { spec, diagnosis } = examined;
    let directions: Vec<Value> =
        diagnosis.trials.iter().map(|(of, trial)| direction_as_json(*of, trial, diagnosis)).collect();
    let findings: Vec<Value> = diagnosis.findings.iter().map(finding_as_json).collect();
    json!({
        "device": spec.to_string(),
        "kind": spec.kind().name,
        "usable": is_usable(diagnosis),
        "directions": directions,
        "findings": findings,
    })
}

fn direction_as_json(direction: Direction, trial: &Trial, diagnosis: &Diagnosis) -> Value {
    let mut value = json!({
        "direction": word(direction),
        "usable": diagnosis.is_usable(direction),
        "verdict": "works",
        "mode": null,
        "mode_reason": null,
        "ring_frames": null,
        "byte_limit": null,
        "why": null,
    });
    match trial {
        Trial::Opened { mode, reason, ring_frames, has_byte_limit } => {
            value["mode"] = json!(mode);
            value["mode_reason"] = json!(reason.as_ref().map(|reason| &reason.what));
            value["ring_frames"] = json!(ring_frames);
            value["byte_limit"] = json!(has_byte_limit);
        }
        Trial::Refused { why } => {
            value["verdict"] = "fails".into();
            value["why"] = json!(why);
        }
        Trial::Untried { why } => {
            value["verdict"] = "untried".into();
            value["why"] = json!(why);
        }
    }
    value
}

fn finding_as_json(finding: &Finding) -> Value {
    let (weight, prevents) = match finding.weight {
        Weight::Fact => ("fact", None),
        Weight::Hint => ("hint", None),
        Weight::Obstacle(direction) => ("obstacle", Some(word(direction))),
    };
    let value = |datum: &Datum| match datum {
        Datum::Text(text) => json!(text),
        Datum::Number(number) => json!(number),
        Datum::Flag(flag) => json!(flag),
    };
    let data: Map<String, Value> =
        finding.data.iter().map(|(name, datum)| ((*name).to_string(), value(datum))).collect();
    json!({
        "subject": finding.subject,
        "weight": weight,
        "prevents": prevents,
        "what": finding.what,
        "mend": finding.mend,
        "data": data,
    })
}
