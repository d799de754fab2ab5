//! Grids of runs: their points, and grids that cannot be.

use std::collections::BTreeMap;
use wharf_lab::experiment::Request;
use wharf_lab::experiment::sweep::{Point, SweepError, grid};

fn axes(axes: &[&str]) -> Result<Vec<Point>, SweepError> {
    let base = Request { name: "bql".into(), ..Request::default() };
    grid(&base, &axes.iter().map(ToString::to_string).collect::<Vec<_>>(), &[1, 2, 1])
}

#[test]
fn a_grid_has_every_combination_once() {
    let points = axes(&["ring_frames=64,128,64,064,+128", "hold_ns=5"]).unwrap();
    let sets: Vec<_> = points.iter().map(|point| (point.request.set.join(" "), point.request.seed)).collect();
    let set = |frames: u64, seed| (format!("ring_frames={frames} hold_ns=5"), seed);
    assert_eq!(sets, [set(64, 1), set(64, 2), set(128, 1), set(128, 2)]);
    assert!(points.iter().enumerate().all(|(number, point)| point.number == number));
    let identities: Vec<_> = points.iter().map(|point| point.identity().unwrap()).collect();
    assert_eq!(identities[0].set, BTreeMap::from([("hold_ns".into(), 5), ("ring_frames".into(), 64)]));
    assert_eq!(identities[0].fingerprint, identities[1].fingerprint, "the seed is told apart by itself");
    assert_ne!(identities[0].fingerprint, identities[2].fingerprint);
}

#[test]
fn wrong_grid_is_an_error_before_any_run() {
    for (wrong, part) in [
        (&["ring_frames"][..], "want KEY=VALUE,VALUE..."),
        (&["ring_frames=64,,8"], "want KEY=VALUE,VALUE..."),
        (&["ring_frames=64", "ring_frames=128"], "given twice"),
        (&["ring_frames=64,1"], "ring_frames of \"1\" cannot be"),
        (&["ring=1"], "no parameter \"ring\""),
    ] {
        let error = axes(wrong).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let list = |end: u32| (4..end).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let wrong_late = [format!("ring_frames={}", list(400)), format!("hold_ns={},0", list(400))];
    let error = axes(&wrong_late.each_ref().map(String::as_str)).unwrap_err().to_string();
    assert!(error.contains("hold_ns of \"0\" cannot be"), "{error}");
    let many = format!("ring_frames={}", list(2000));
    let holds = many.replace("ring_frames", "hold_ns");
    assert!(matches!(axes(&[&many, &holds]), Err(SweepError::TooMany(_))));
}
