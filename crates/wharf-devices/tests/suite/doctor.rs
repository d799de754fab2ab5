//! Diagnoses: the verdict is that of opening, and a device whose opening would last is left alone.

use std::sync::atomic::{AtomicUsize, Ordering};
use wharf_core::device::DeviceError;
use wharf_devices::doctor::{Doctor, Effect, Exam, Finding, Trial, diagnose};
use wharf_devices::null::Null;
use wharf_devices::registry::Registry;
use wharf_devices::spec::{Can, DeviceSpec, Direction, Kind, Opened, Opening};

fn examined(registry: &Registry, spec: &str) -> (DeviceSpec, Exam) {
    let spec = registry.parse(spec).unwrap();
    let exam = Exam::of(&spec);
    (spec, exam)
}

#[test]
fn a_device_that_opens_works() {
    let (spec, exam) = examined(&Registry::default(), "null");
    let diagnosis = diagnose(&spec, &exam);
    let opened =
        Trial::Opened { mode: None, reason: None, ring_frames: Some(256), has_byte_limit: Some(true) };
    assert_eq!(diagnosis.trials, [(Direction::Send, opened)]);
    assert!(diagnosis.is_usable(Direction::Send) && diagnosis.findings.is_empty());
}

#[test]
fn a_direction_that_the_kind_lacks_is_refused() {
    let (spec, mut exam) = examined(&Registry::default(), "null");
    exam.directions = vec![Direction::Receive];
    let diagnosis = diagnose(&spec, &exam);
    assert_eq!(diagnosis.trials[0].1, Trial::Refused { why: "null: it only sends".into() });
    assert!(!diagnosis.is_usable(Direction::Receive));
}

#[test]
fn both_ends_of_a_wire_are_closed_again() {
    let (spec, mut exam) = examined(&Registry::default(), "wire");
    exam.directions = vec![Direction::Send, Direction::Receive, Direction::Both];
    let diagnosis = diagnose(&spec, &exam);
    assert!(exam.directions.iter().all(|direction| diagnosis.is_usable(*direction)), "{diagnosis:?}");
}

static OPENED: AtomicUsize = AtomicUsize::new(0);

fn open_counted(spec: &DeviceSpec, opening: Opening) -> Result<Vec<Opened>, DeviceError> {
    OPENED.fetch_add(1, Ordering::Relaxed);
    match opening.direction {
        Direction::Receive => Err(spec.fault("nothing arrives")),
        _ => Ok(vec![Opened::tx(Null::default())]),
    }
}

static COUNTED: Kind = Kind {
    can: Can::BOTH,
    doctor: Doctor {
        findings: |_| {
            vec![Finding::obstacle("driver", Direction::Receive, "it cannot receive").mend("buy another")]
        },
        effect: |_, direction| match direction {
            Direction::Both => Effect::Lasting("it would last".into()),
            _ => Effect::Reset("a moment".into()),
        },
    },
    ..Kind::new("counted", "counted", "a test's own", open_counted)
};

#[test]
fn the_verdict_is_that_of_opening_or_of_the_findings() {
    let registry = Registry::default().with(&COUNTED).unwrap();
    let (spec, mut exam) = examined(&registry, "counted");
    exam.directions.push(Direction::Both);
    let unasked = diagnose(&spec, &exam).trials;
    let why = "a moment; --probe opens it all the same";
    assert_eq!(unasked[0].1, Trial::Untried { why: why.into() });
    exam.probes = true;
    let diagnosis = diagnose(&spec, &exam);
    assert!(matches!(diagnosis.trials[0], (Direction::Send, Trial::Opened { .. })));
    assert_eq!(diagnosis.trials[1].1, Trial::Refused { why: "counted: nothing arrives".into() });
    assert_eq!(diagnosis.trials[2].1, Trial::Untried { why: "it would last".into() });
    let usable = exam.directions.iter().map(|direction| diagnosis.is_usable(*direction));
    assert_eq!(usable.collect::<Vec<_>>(), [true, false, false]);
    let told: Vec<&str> = diagnosis.findings.iter().map(|finding| finding.what.as_str()).collect();
    assert_eq!(told, ["it cannot receive", "a moment"], "a disturbance is told once");
    assert_eq!(OPENED.swap(0, Ordering::Relaxed), 2);

    exam.opens = false;
    let diagnosis = diagnose(&spec, &exam);
    assert!(diagnosis.trials.iter().all(|(_, trial)| matches!(trial, Trial::Untried { .. })));
    let usable = exam.directions.iter().map(|direction| diagnosis.is_usable(*direction));
    assert_eq!(usable.collect::<Vec<_>>(), [true, false, false]);
    assert_eq!((OPENED.load(Ordering::Relaxed), diagnosis.findings.len()), (0, 1));
}
