//! `wharf lab`.

mod common;

use common::wharf;

/// Short enough for a debug build.
const SHORT: [&str; 8] =
    ["lab", "run", "bulk", "--set", "settle_ns=2000000", "--set", "measure_ns=1000000", "--seed=3"];

#[test]
fn experiments_are_listed() {
    let listing = wharf(&["lab", "list", "--json"]).good_json();
    let experiments = listing["experiments"].as_array().unwrap();
    assert!(
        experiments.iter().any(|entry| entry["name"] == "bulk" && entry["what"].is_string()),
        "{listing}"
    );
    assert!(wharf(&["lab", "list"]).stdout.contains("bulk"));
}

/// By the list, and by the help on running one.
#[test]
fn parameters_are_listed_with_defaults_bounds_and_meanings() {
    let lines = |args: &[&str]| {
        let done = wharf(args);
        assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{args:?}");
        done.stdout.lines().map(str::to_string).collect::<Vec<_>>()
    };
    for args in [
        &["lab", "list", "fairness"][..],
        &["lab", "run", "fairness", "--help"],
        &["lab", "sweep", "fairness", "-h"],
    ] {
        let lines = lines(args);
        let has = |parts: &[&str]| lines.iter().any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(has(&["fairness in world model", "--set KEY=VALUE"]), "{args:?}: {lines:?}");
        assert!(
            has(&["burst", " 1 ", "a whole number from 1 to 64", "one packet at a time"]),
            "{args:?}: {lines:?}"
        );
        assert!(has(&["make_ns", "640", "1.24 Mpps"]), "{args:?}: {lines:?}");
    }
    assert!(!lines(&["lab", "run", "--help"]).iter().any(|line| line.contains("make_ns")));
    let listing = wharf(&["lab", "list", "fairness", "--json"]).good_json();
    let burst = &listing["experiments"][0]["parameters"]["host"]["burst"];
    assert_eq!(burst["value"], 1);
    assert!(burst["source"].is_string() && burst["allowed"] == "a whole number from 1 to 64", "{burst}");
}

#[test]
fn a_run_prints_its_rows_with_their_kind_and_repeats_exactly() {
    let args: Vec<&str> = SHORT.iter().copied().chain(["--json"]).collect();
    let report = wharf(&args).good_json();
    let keys: Vec<&String> = report.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["experiment", "world", "seed", "parameters", "rows"]);
    assert_eq!(
        (&report["experiment"], &report["world"], &report["seed"]),
        (&"bulk".into(), &"model".into(), &3.into())
    );
    let doorbell = &report["parameters"]["doorbell_ps"];
    assert!(doorbell["kind"] == "fitted" && doorbell["source"].is_string(), "{doorbell}");
    for row in report["rows"].as_array().unwrap() {
        assert!(row["label"].is_string() && row["metric"].is_string() && row["unit"].is_string(), "{row}");
        assert!(
            row["value"].is_number() && (row["published"].is_number() || row["published"].is_null()),
            "{row}"
        );
        assert!(row["kind"] == "fitted" || row["kind"] == "predicted", "{row}");
    }
    assert_eq!(wharf(&args).stdout, wharf(&args).stdout);
}

#[test]
fn the_table_shows_set_parameters_and_no_time() {
    let args: Vec<&str> = SHORT.iter().copied().chain(["--time"]).collect();
    let timed = wharf(&args);
    assert_eq!(timed.code, Some(0));
    assert!(timed.stderr.contains("million per second"), "{timed:?}");
    assert!(timed.stdout.contains("set: measure_ns=1000000, settle_ns=2000000"), "{timed:?}");
    let plain = wharf(&SHORT);
    assert_eq!((plain.stdout, plain.stderr.as_str()), (timed.stdout, ""));
}

/// Both worlds have the same policies; on the host figures are measured, and the pool's ledger was looked at.
#[test]
fn pages_runs_in_both_worlds() {
    let policies = ["allocator", "recycle-head", "recycle-scan", "origin", "halves", "sender-cache"];
    let model: Vec<&str> =
        "lab run pages --set settle_ns=100000 --set measure_ns=100000 --json".split(' ').collect();
    let host: Vec<&str> =
        "lab run pages --world host --threads 2,3 --seconds 0.05 --set rounds=1 --json".split(' ').collect();
    for (args, world, suffixes) in
        [(model, "model", &[""][..]), (host, "host", &["/threads=2", "/threads=3"][..])]
    {
        let report = wharf(&args).good_json();
        assert_eq!((&report["experiment"], &report["world"]), (&"pages".into(), &world.into()));
        let rows = report["rows"].as_array().unwrap();
        for (policy, suffix) in policies.iter().flat_map(|policy| suffixes.iter().map(move |s| (policy, s))) {
            let label = format!("{policy}{suffix}");
            let of = |metric: &str| rows.iter().find(|row| row["label"] == *label && row["metric"] == metric);
            // On the host so short a time may pass without a packet, where others want the processors, too.
            let flows = |row: &serde_json::Value| world == "host" || row["value"].as_f64() > Some(0.0);
            assert!(of("mpps").is_some_and(flows), "{label}");
            for metric in ["allocations", "frees", "spinning", "slow_paths", "locks", "remote_returns"] {
                assert!(of(metric).is_some(), "{label} {metric}");
            }
        }
        assert_eq!(rows.iter().all(|row| row["kind"] == "measured"), world == "host");
    }
    let refused = wharf(&["lab", "run", "pages", "--threads", "2"]);
    assert_eq!(refused.code, Some(2), "threads are for the host: {refused:?}");
}

/// Wrong settings are told in a line that says what is wanted, before anything runs.
#[test]
fn wrong_settings_and_seeds_are_told() {
    for (args, wanted) in [
        (&["lab", "run", "bql", "--set", "hold_ns"][..], "--set hold_ns: want KEY=VALUE"),
        (&["lab", "run", "bql", "--set", "hold_ns=5", "--set", "hold_ns=6"], "--set hold_ns is given twice"),
        (&["lab", "run", "bql", "--seed", "x"], "want a whole number from 0 to 18446744073709551615"),
        (&["lab", "sweep", "bql", "--seeds", "1,-2"], "want a whole number from 0 to 18446744073709551615"),
    ] {
        let refused = wharf(args);
        assert!(refused.code == Some(2) && refused.stdout.is_empty(), "{refused:?}");
        assert!(refused.stderr.contains(wanted) && refused.stderr.lines().count() == 1, "{refused:?}");
    }
}

/// A folder of this test's own.
fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("wharf-lab-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

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
    assert_eq!(std::fs::read(&cut).unwrap(), wanted, "what is there is left alone");
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

/// What failed once may not the next time: memory, a machine that was busy.
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
    // And once more, after it came right, before the points were put in order.
    for before in [failed.clone(), failed + wanted.lines().nth(3).unwrap() + "\n"] {
        std::fs::write(&file, before).unwrap();
        let again = wharf(&words(&sweep_into(&file, "2000000")));
        assert_eq!((again.code, std::fs::read_to_string(&file).unwrap()), (Some(0), wanted.clone()));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The file's whole lines, and which points they are of.
fn points_in(file: &std::path::Path) -> (Vec<String>, Vec<u64>) {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let lines: Vec<String> = whole.map(str::to_string).collect();
    let point = |line: &String| serde_json::from_str::<serde_json::Value>(line).unwrap()["point"].as_u64();
    let points = lines.iter().map(|line| point(line).unwrap()).collect();
    (lines, points)
}

/// Killed for real (SIGKILL), ten times at whatever moment, with a torn line left behind each other time: each line that was written
/// stays as it is, none is written again, and the end is that of a sweep that nobody has killed.
#[test]
fn a_killed_sweep_neither_loses_nor_repeats_a_point() {
    let folder = folder("killed");
    let (file, whole) = (folder.join("points"), folder.join("whole"));
    let (args, mut kept) = (sweep_into(&file, "20000000"), Vec::new());
    // Any sequence will do; this one is the same every time (xorshift).
    let mut random = 0x9e37_79b9_u32;
    for kill in 0..10 {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_wharf")).args(&args).spawn().unwrap();
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        std::thread::sleep(std::time::Duration::from_micros(u64::from(random % 60_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        let (lines, points) = points_in(&file);
        assert!(kept.iter().all(|line| lines.contains(line)), "kill {kill}: what was done is as it was");
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
    assert!(kept.iter().all(|line| lines.contains(line)), "what was done is as it was");
    assert_eq!(points, (0..8).collect::<Vec<u64>>());
    assert_eq!(wharf(&words(&sweep_into(&whole, "20000000"))).code, Some(0));
    assert_eq!(std::fs::read(&file).unwrap(), std::fs::read(&whole).unwrap());
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A file that another sweep writes to, one that is none, and a link: told, or followed, and nothing is lost.
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
    drop(other);
    assert_eq!(std::fs::read(&file).unwrap(), b"", "what the other has is left alone");
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

/// With one thread there is no other that frees pages: what is missing is said.
#[test]
fn pages_of_one_thread_say_why_they_are_few() {
    let args = "lab run pages --world host --threads 1 --seconds 0.05 --set rounds=1".split(' ');
    let shown = wharf(&args.collect::<Vec<_>>());
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let said: Vec<&str> = shown.stdout.lines().filter(|line| line.contains("2 threads at least")).collect();
    assert_eq!(said.len(), 1, "{shown:?}");
}

/// A table or a picture of a page, and the command that its caption names.
#[derive(Debug)]
struct Figure {
    content: String,
    command: String,
}

/// All figures of a page, each of which has its command; what is outside of them has none: parameters and the machine.
fn figures_of(page: &str) -> Vec<Figure> {
    let mut pieces = page.split("<figure>");
    let mut outside = pieces.next().unwrap().to_string();
    let mut figures = Vec::new();
    for piece in pieces {
        let (figure, rest) = piece.split_once("</figure>").unwrap();
        outside.push_str(rest);
        let (content, caption) = figure.split_once("<figcaption>").unwrap();
        let command = caption.split("<code>").nth(1).and_then(|code| code.split("</code>").next());
        let command = command.unwrap_or_else(|| panic!("no command: {caption}"));
        let command =
            ["&lt;<", "&gt;>", "&quot;\"", "&amp;&"].iter().fold(command.to_string(), |text, pair| {
                let (escaped, plain) = pair.split_at(pair.len() - 1);
                text.replace(escaped, plain)
            });
        figures.push(Figure { content: content.to_string(), command });
    }
    assert!(!outside.contains("<svg"), "a picture without a command");
    for table in outside.split("<table>").skip(1) {
        let is_known = ["<tr><th scope=\"col\">parameter</th>", "<tr><th scope=\"row\">command</th>"]
            .iter()
            .any(|head| table.starts_with(head));
        assert!(is_known, "a table without a command: {}", &table[..80.min(table.len())]);
    }
    figures
}

/// Figures of a table of a page: of what, which, and how it is written.
fn cells_of(table: &str) -> Vec<[String; 3]> {
    let cell = |line: &str, at: usize| {
        let cell = line.split("<td").nth(at + 1).unwrap();
        cell.split_once('>').unwrap().1.split("</td>").next().unwrap().to_string()
    };
    let lines = table.split("<tr>").filter(|line| line.starts_with("<td"));
    lines.map(|line| [cell(line, 0), cell(line, 1), cell(line, 2)]).collect()
}

/// The command under each table and picture, run as it stands, gives that table and that picture.
#[test]
fn the_command_of_each_figure_gives_that_figure() {
    let folder = folder("commands");
    let (first, again) = (folder.join("first"), folder.join("again"));
    for run in [
        &["lab", "run", "bulk", "--set", "settle_ns=2000000", "--set", "measure_ns=1000000", "--seed=3"][..],
        &["lab", "run", "pages", "--set", "settle_ns=100000", "--set", "measure_ns=100000"],
        &["lab", "run", "bql", "--set", "phase_ns=2000000", "--seed", "9"],
    ] {
        let args: Vec<&str> = run.iter().copied().chain(["--report", first.to_str().unwrap()]).collect();
        assert_eq!(wharf(&args).code, Some(0));
        let page = std::fs::read_to_string(first.join("report.html")).unwrap();
        for figure in figures_of(&page) {
            let command = figure.command.replace("DIR", again.to_str().unwrap());
            let words: Vec<&str> = command.split(' ').collect();
            assert_eq!(words[0], "wharf", "{command}");
            if !figure.content.contains("<svg") {
                let words: Vec<&str> = words[1..].iter().copied().chain(["--json"]).collect();
                let report = wharf(&words).good_json();
                assert_figures(&report, &cells_of(&figure.content), &command);
                continue;
            }
            let _ = std::fs::remove_dir_all(&again);
            assert_eq!(wharf(&words[1..]).code, Some(0), "{command}");
            let pictures = std::fs::read_dir(&again).unwrap().map(|entry| entry.unwrap().path());
            let found = pictures.filter(|path| path.extension().is_some_and(|end| end == "svg"));
            let texts: Vec<String> = found.map(|path| std::fs::read_to_string(path).unwrap()).collect();
            assert!(texts.iter().any(|svg| figure.content.contains(svg.as_str())), "{command}");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The report has each of the figures, as they are written.
fn assert_figures(report: &serde_json::Value, cells: &[[String; 3]], command: &str) {
    assert!(!cells.is_empty(), "{command}: an empty table");
    for [label, metric, written] in cells {
        let rows = report["rows"].as_array().unwrap();
        let is_it = |row: &&serde_json::Value| row["label"] == **label && row["metric"] == **metric;
        let row = rows.iter().find(is_it).unwrap_or_else(|| panic!("{command}: no {label} {metric}"));
        let value = row["value"].as_f64().unwrap();
        let decimals = written.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        assert_eq!(*written, format!("{value:.decimals$}"), "{command}: {label} {metric}");
    }
}

#[test]
fn a_report_opens_without_a_network_and_has_a_command_for_each_figure() {
    let folder = folder("report");
    let path = folder.join("new").to_str().unwrap().to_string();
    let args: Vec<&str> = SHORT.iter().copied().chain(["--report", &path]).collect();
    assert_eq!(wharf(&args).code, Some(0));
    let page = std::fs::read_to_string(folder.join("new/report.html")).unwrap();
    let again = "wharf lab run bulk --world model --seed 3 --set settle_ns=2000000 --set measure_ns=1000000";
    // A namespace is a name, and nothing that is fetched.
    let fetched = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for outside in ["http:", "https:", "<script", "<link", "src=", "url(", "@import"] {
        assert!(!fetched.contains(outside), "{outside}");
    }
    let figures = figures_of(&page);
    assert!(figures.len() >= 3, "a picture and two tables at least");
    assert!(figures.iter().all(|figure| figure.command.starts_with(again)), "{figures:?}");
    assert!(page.contains(
        "wharf lab run bulk --seed 3 --set settle_ns=2000000 --set measure_ns=1000000 --report DIR"
    ));
    for name in ["published", "residual", "predicted", "doorbell_ps", "processor", "seed 3"] {
        assert!(page.contains(name), "{name}");
    }
    let svg = std::fs::read_to_string(folder.join("new/bulk-model-published.svg")).unwrap();
    assert!(svg.starts_with("<svg") && page.contains(&svg), "the picture is a file, too");
    assert!(svg.contains("<title>bulk: ours, as a multiple of what was published</title>"), "{svg}");
    assert!(!page.contains("<th>"), "a head says of what it is one");
    let file = folder.join("file");
    std::fs::write(&file, "").unwrap();
    let args: Vec<&str> = SHORT.iter().copied().chain(["--report", file.to_str().unwrap()]).collect();
    let refused = wharf(&args);
    assert!(refused.code == Some(1) && refused.stderr.contains("want a folder"), "{refused:?}");
    assert_eq!(refused.stdout, "", "told before anything is run");
    // A folder in which nobody can make files.
    let args: Vec<&str> = SHORT.iter().copied().chain(["--report", "/proc/self"]).collect();
    let refused = wharf(&args);
    assert!(refused.code == Some(1) && refused.stderr.contains("cannot write into"), "{refused:?}");
    assert_eq!(refused.stdout, "", "told before anything is run");
    std::fs::remove_dir_all(&folder).unwrap();
}
