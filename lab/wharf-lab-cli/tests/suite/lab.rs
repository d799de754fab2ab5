//! `wharf lab`.

use crate::common::wharf;
use crate::folder;

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
    assert_eq!(keys, ["experiment", "world", "seed", "parameters", "judgement", "rows"]);
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
fn wrong_settings_and_seeds_give_errors() {
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
        let heads = ["col\">parameter", "row\">command", "col\">experiment"];
        let is_known = heads.iter().any(|head| table.starts_with(&format!("<tr><th scope=\"{head}</th>")));
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
    let done = wharf(&args);
    assert_eq!(done.code, Some(0));
    // The figures are in the page: the terminal gets a line for each experiment, and the page's name.
    let shown = &done.stdout;
    assert!(shown.trim_end().ends_with(&format!("written: {path}/report.html")), "{shown}");
    // Through a pipe its table has 80 columns.
    assert!(shown.lines().count() < 20 && shown.contains("not reproduced"), "{shown}");
    let page = std::fs::read_to_string(folder.join("new/report.html")).unwrap();
    let again = "wharf lab run bulk --world model --seed 3 --set settle_ns=2000000 --set measure_ns=1000000";
    // A namespace is a name, and a link is followed by the reader: neither is fetched.
    let fetched = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "").replace("<a href=\"https:", "");
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
    assert!(svg.contains("prefers-color-scheme:dark"), "it follows the reader's theme");
    assert!(!page.contains("<th>"), "a header cell has a scope");
    // The score is the rows', each published figure links to its source, and the tables are on the page alone.
    assert!(page.contains("10 published figures: "), "{page}");
    let source =
        "<a href=\"https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git/commit/?id=c2bf5ec";
    assert!(page.matches(source).count() == 11, "10 figures and the head of the section");
    let written = format!("written: {path}/report.html");
    assert!(done.stdout.lines().last() == Some(&written), "{}", done.stdout);
    assert!(done.stdout.contains("10 published figures: "), "{}", done.stdout);
    let file = folder.join("file");
    std::fs::write(&file, "").unwrap();
    let args: Vec<&str> = SHORT.iter().copied().chain(["--report", file.to_str().unwrap()]).collect();
    let refused = wharf(&args);
    assert!(refused.code == Some(1) && refused.stderr.contains("want a folder"), "{refused:?}");
    assert_eq!(refused.stdout, "", "told before anything is run");
    // A folder in which no file can be made.
    let args: Vec<&str> = SHORT.iter().copied().chain(["--report", "/proc/self"]).collect();
    let refused = wharf(&args);
    assert!(refused.code == Some(1) && refused.stderr.contains("cannot write into"), "{refused:?}");
    assert_eq!(refused.stdout, "", "told before anything is run");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A scenario of one's own: the same bytes twice, an error of one line, and both worlds beside each other.
#[test]
fn a_scenario_runs_in_both_worlds() {
    let folder = folder("scenario");
    let file = folder.join("mine.toml");
    std::fs::write(&file, "settle = \"100us\"\nmeasure = \"1ms\"\n[[sender]]\ncount = 2\n").unwrap();
    let name = file.to_str().unwrap();
    let run = || wharf(&["lab", "run", name, "--seed", "7"]);
    assert_eq!((run().code, run().stdout), (Some(0), run().stdout));
    let report = wharf(&["lab", "run", name, "--json"]).good_json();
    assert_eq!((&report["world"], &report["rows"][0]["metric"]), (&"model".into(), &"mpps".into()));
    let host = wharf(&["lab", "run", name, "--world", "host", "--seconds", "0.05", "--json"]).good_json();
    assert_eq!(host["rows"][0]["kind"], "measured");
    let compared =
        wharf(&["lab", "compare", name, "--rounds", "1", "--seconds", "0.05", "--json"]).good_json();
    let row = &compared["rows"][0];
    assert!(["predicted", "measured", "error_percent"].iter().all(|key| row[key].is_f64()), "{row}");
    std::fs::write(&file, "[[sender]]\nburst = 0\n").unwrap();
    let refused = run();
    assert!(refused.code == Some(2) && refused.line().contains("sender.burst: 0 cannot be"), "{refused:?}");
    let set = wharf(&["lab", "run", name, "--set", "a=1"]);
    assert!(set.code == Some(2) && set.line().contains("--set"), "{set:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The experiments in virtual time that can be short enough for a debug build.
const MODELS: [(&str, &str); 7] = [
    ("bql", "phase_ns=20000000 hold_ns=5000000 probe_every_ns=500000"),
    ("bulk", "settle_ns=2000000 measure_ns=1000000"),
    (
        "hol",
        "10g_settle_ns=5000000 10g_measure_ns=5000000 100m_settle_ns=5000000 100m_measure_ns=5000000 interval_ns=2000000",
    ),
    ("pages", "cpus=8 channels=2 streams=24 settle_ns=100000 measure_ns=100000"),
    ("pcie", "queues=2 settle_ns=3000 stack_settle_ns=3000 measure_ns=5000"),
    ("tx-napi", "runs=1 settle_ns=500000 measure_ns=500000"),
    ("veth", "settle_ns=2000000 measure_ns=5000000"),
];

/// The file of an experiment, as it is printed, runs as the experiment, to the byte.
#[test]
fn the_file_of_an_experiment_runs_as_it_does() {
    let folder = folder("own-file");
    for (name, set) in MODELS {
        let printed = wharf(&["lab", "list", name, "--scenario"]);
        assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""));
        let file = folder.join(format!("{name}.toml"));
        std::fs::write(&file, printed.stdout).unwrap();
        let set: Vec<&str> = set.split(' ').flat_map(|set| ["--set", set]).collect();
        let run = |what: &str| {
            let done = wharf(&[&["lab", "run", what], &set[..]].concat());
            assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{what}");
            done.stdout
        };
        assert_eq!(run(file.to_str().unwrap()), run(name));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Numbers of a file take the place of the experiment's: parameters, and published figures.
#[test]
fn an_experiment_runs_with_the_numbers_of_a_file() {
    let folder = folder("own-numbers");
    let file = folder.join("mine.toml");
    let name = file.to_str().unwrap();
    let write = |text: &str| std::fs::write(&file, format!("experiment = \"bulk\"\n{text}")).unwrap();
    let short = "settle_ns = 2000000\nmeasure_ns = 1000000\n";
    write(&format!("{short}[published.bulk_dequeue]\ntrafgen_12cpu_bulk_mpps = 14.2\n"));
    let ours = wharf(&["lab", "run", name, "--seed=3", "--json"]).good_json();
    let named = wharf(&[&SHORT[..], &["--json"]].concat()).good_json();
    let effect = |report: &serde_json::Value| {
        let rows = report["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["label"] == "trafgen-12/bulk=on" && row["metric"] == "mpps");
        ["value", "published", "error"].map(|key| row.unwrap()["effect"][key].as_f64().unwrap())
    };
    let ([value, published, error], [same, was, error_was]) = (effect(&ours), effect(&named));
    assert_eq!((value, published, was), (same, 10.94, 15.63));
    assert!((error - error_was - 4.69).abs() < 0.011, "{error} {error_was}");
    let settle = &ours["parameters"]["settle_ns"];
    assert_eq!((&settle["value"], &settle["kind"]), (&2_000_000.into(), &"set".into()));
    assert_eq!(settle["source"], format!("set in {name}"));
    let effects = wharf(&["lab", "run", name, "--set", "settle_ns=1000000", "--effects", "--seeds", "2"]);
    assert!(effects.code == Some(0) && effects.stdout.contains("+10.9"), "{effects:?}");
    let page = wharf(&["lab", "run", name, "--report", folder.to_str().unwrap()]);
    assert_eq!((page.code, page.stderr.as_str()), (Some(0), ""));
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains(&format!("<code>wharf lab run {name} --world model --seed 1</code>")), "{name}");
    let pages = folder.join("pages.toml");
    std::fs::write(&pages, "experiment = \"pages\"").unwrap();
    let pages = pages.to_str().unwrap();
    for (args, wanted) in [
        (&["lab", "run", name, "--world", "host"][..], "bulk does not run in world host: it runs in model"),
        (&["lab", "run", pages, "--world", "host"], "the numbers of world model: leave --world out"),
        (&["lab", "compare", name], "names an experiment: compare takes scenarios with senders"),
        (&["lab", "run", name, "--set", "cpus=0"], "cpus of \"0\" cannot be"),
        (&["lab", "list", "--scenario"], "arguments were not provided: <NAME>"),
    ] {
        let refused = wharf(args);
        assert!(refused.code == Some(2) && refused.stdout.is_empty(), "{refused:?}");
        assert!(refused.line().contains(wanted), "{refused:?}");
    }
    for text in ["cpus = 99", "cpus = [", "a = 1", "[published]\nbulk_dequeue = 1", "[[sender]]"] {
        write(text);
        let refused = wharf(&["lab", "run", name]);
        assert!(refused.code == Some(2) && refused.line().contains("mine.toml: "), "{refused:?}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
