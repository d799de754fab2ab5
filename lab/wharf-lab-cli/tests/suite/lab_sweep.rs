//! `wharf lab sweep`.

use crate::common::wharf;
use crate::folder;

/// 8 points of a few milliseconds each.
fn sweep_into(file: &std::path::Path, phase: &str) -> Vec<String> {
    let file = file.to_str().unwrap();
    let set = format!("phase_ns={phase}");
    ["lab", "sweep", "bql", "--set", "ring_frames=64,128", "--set", "hold_ns=1000000,2000000", "--set", &set]
        .into_iter()
        .chain(["--seeds", "1,2", "--out", file])
        .map(str::to_string)
        .collect()
}

fn words(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

#[test]
fn a_sweep_that_was_cut_off_anywhere_goes_on_to_the_same_file() {
    let folder = folder("cut");
    let (whole, cut) = (folder.join("whole"), folder.join("cut"));
    assert_eq!(wharf(&words(&sweep_into(&whole, "2000000"))).code, Some(0));
    let wanted = std::fs::read(&whole).unwrap();
    let lines: Vec<serde_json::Value> = wanted
        .split_inclusive(|&byte| byte == b'\n')
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 8);
    assert!(lines.iter().enumerate().all(|(at, line)| line["point"] == at && line["rows"].is_array()));
    // Within a line, at its end, before anything.
    let ends: Vec<usize> =
        wanted.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).collect();
    for length in [0, 1, ends[0], ends[0] + 1, ends[3] - 1, wanted.len() - 1, wanted.len()] {
        std::fs::write(&cut, &wanted[..length]).unwrap();
        assert_eq!(wharf(&words(&sweep_into(&cut, "2000000"))).code, Some(0), "{length}");
        assert_eq!(std::fs::read(&cut).unwrap(), wanted, "{length}");
    }
    let other = wharf(&words(&sweep_into(&cut, "3000000")));
    assert!(other.code == Some(1) && other.stderr.contains("give another --out"), "{other:?}");
    assert_eq!(std::fs::read(&cut).unwrap(), wanted, "the file stays as it is");
    std::fs::write(&cut, "no line of ours\n").unwrap();
    assert!(wharf(&words(&sweep_into(&cut, "2000000"))).stderr.contains("no line of a sweep"));
    // Two machines have the same points between them as one.
    let parts = ["1/2", "2/2"].map(|part| {
        let args = sweep_into(std::path::Path::new("/dev/stdout"), "2000000");
        let args: Vec<&str> =
            args.iter().map(String::as_str).filter(|word| !["--out", "/dev/stdout"].contains(word)).collect();
        wharf(&args.into_iter().chain(["--part", part, "--jobs", "1"]).collect::<Vec<_>>()).stdout
    });
    let mut theirs: Vec<&str> = parts.iter().flat_map(|part| part.lines()).collect();
    theirs.sort_by_key(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["point"].as_u64());
    assert_eq!(theirs.join("\n") + "\n", String::from_utf8(wanted).unwrap());
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A point may fail for lack of memory or on a busy machine, and succeed the next time.
#[test]
fn a_point_that_failed_is_run_again() {
    let folder = folder("failed");
    let file = folder.join("points");
    assert_eq!(wharf(&words(&sweep_into(&file, "2000000"))).code, Some(0));
    let wanted = std::fs::read_to_string(&file).unwrap();
    let failed: String = wanted
        .lines()
        .map(|line| match line.split_once(",\"rows\":") {
            Some((identity, _)) if line.starts_with("{\"point\":3,") => {
                format!("{identity},\"error\":\"no memory\"}}\n")
            }
            _ => format!("{line}\n"),
        })
        .collect();
    assert!(failed.contains("no memory"));
    // And once more with the repeated point behind, before the points are put in order.
    for before in [failed.clone(), failed + wanted.lines().nth(3).unwrap() + "\n"] {
        std::fs::write(&file, before).unwrap();
        let again = wharf(&words(&sweep_into(&file, "2000000")));
        assert_eq!((again.code, std::fs::read_to_string(&file).unwrap()), (Some(0), wanted.clone()));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Returns the file's whole lines, and the number of each line's point.
fn points_in(file: &std::path::Path) -> (Vec<String>, Vec<u64>) {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let lines: Vec<String> = whole.map(str::to_string).collect();
    let point = |line: &String| serde_json::from_str::<serde_json::Value>(line).unwrap()["point"].as_u64();
    let points = lines.iter().map(|line| point(line).unwrap()).collect();
    (lines, points)
}

/// SIGKILL ends the sweep ten times at any moment, and every other time a torn line stays behind. Each line written stays as it is,
/// none is written again, and the file ends up like that of a sweep without kills.
#[test]
fn a_killed_sweep_neither_loses_nor_repeats_a_point() {
    let folder = folder("killed");
    let (file, whole) = (folder.join("points"), folder.join("whole"));
    let (args, mut kept) = (sweep_into(&file, "20000000"), Vec::new());
    // Any sequence will do; this one is the same every time (xorshift).
    let mut random = 0x9e37_79b9_u32;
    for kill in 0..10 {
        let mut child = std::process::Command::new(crate::common::PROGRAM).args(&args).spawn().unwrap();
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        std::thread::sleep(std::time::Duration::from_micros(u64::from(random % 60_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        let (lines, points) = points_in(&file);
        assert!(kept.iter().all(|line| lines.contains(line)), "kill {kill}: earlier lines stay as they are");
        let mut once = points.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), points.len(), "kill {kill}: a point is there twice");
        if kill % 2 == 1 && points.len() < 8 {
            use std::io::Write as _;
            let mut torn = std::fs::OpenOptions::new().append(true).create(true).open(&file).unwrap();
            torn.write_all(&lines.first().map_or("{\"poi", String::as_str).as_bytes()[..5]).unwrap();
        }
        kept = lines;
    }
    assert_eq!(wharf(&words(&args)).code, Some(0));
    let (lines, points) = points_in(&file);
    assert!(kept.iter().all(|line| lines.contains(line)), "earlier lines stay as they are");
    assert_eq!(points, (0..8).collect::<Vec<u64>>());
    assert_eq!(wharf(&words(&sweep_into(&whole, "20000000"))).code, Some(0));
    assert_eq!(std::fs::read(&file).unwrap(), std::fs::read(&whole).unwrap());
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A file of another sweep and anything but a file give an error; a link is followed. Nothing is lost.
#[test]
fn a_sweep_has_its_file_to_itself() {
    let folder = folder("alone");
    let (file, link, pipe) = (folder.join("points"), folder.join("link"), folder.join("pipe"));
    let refused = |path: &std::path::Path, wanted: &str| {
        let refused = wharf(&words(&sweep_into(path, "2000000")));
        assert!(refused.code == Some(1) && refused.stderr.contains(wanted), "{refused:?}");
        assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
    };
    let other = std::fs::File::create(&file).unwrap();
    rustix::fs::flock(&other, rustix::fs::FlockOperation::LockExclusive).unwrap();
    refused(&file, "another sweep");
    // A process that another test is starting may have the descriptor for a moment: closing it would not be enough.
    rustix::fs::flock(&other, rustix::fs::FlockOperation::Unlock).unwrap();
    drop(other);
    assert_eq!(std::fs::read(&file).unwrap(), b"", "the other sweep's file stays as it is");
    std::os::unix::fs::symlink("points", &link).unwrap();
    assert_eq!(wharf(&words(&sweep_into(&link, "2000000"))).code, Some(0));
    assert!(link.symlink_metadata().unwrap().is_symlink(), "a link stays one");
    assert_eq!(points_in(&file).1, (0..8).collect::<Vec<u64>>());
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for odd in [pipe.as_path(), std::path::Path::new("/dev/null"), &folder] {
        refused(odd, "no file that can be gone on with");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
