//! Help, manual pages and completions; wrong use; signals, terminals, threads and folders.

use crate::common::manners::{
    assert_documented, assert_examples_fit, assert_names_itself, assert_pages, assert_short_help,
    completions, words,
};
use crate::common::terminal::assert_wrapped;
use crate::common::threads::assert_few_threads_will_do;
use crate::common::{Folder, assert_wrong, command, finish, signal, started, text, wharf};
use std::process::Stdio;

/// Every command, as words behind `wharf`.
const COMMANDS: [&str; 5] = ["plan", "lab list", "lab run", "lab sweep", "lab"];

/// Wrong command lines, with the words that the error must have.
const WRONG: &[(&str, &str)] = &[
    ("plan --link gen3x3", "lanes: 3 cannot be: one of 1, 2, 4, 8, 12, 16, 32"),
    ("plan --link gen3x16,mps=100", "mps: 100 cannot be"),
    ("plan --size 0", "want a frame without its check sequence, 60 to 16380 bytes"),
    ("plan --size 60 --imix", "cannot be used with"),
    ("plan --cores 0", "want a number from 1 to 4096"),
    ("plan --feature rx_cqe_compress", "want NAME=on or NAME=off"),
    ("plan --feature fast=on", "no such feature; there are page_pool, rx_cqe_compress"),
    ("plan --feature tx_push=on --feature xdp_tx_mpwqe=on", "not together with xdp_tx_mpwqe"),
    ("plan --set tags=0", "tags.value: 0 cannot be: a whole number from 1 to 65536"),
    ("plan --set tags", "want KEY=VALUE"),
    ("plan --sweep size=9..5", "want a frame without its check sequence"),
    ("plan --sweep bytes=64..128", "want sizes to go through"),
    ("plan --target quick", "want a rate with its unit"),
    ("plan --nic nothing", "none of cx5, cx6dx, cx7, e1000"),
    ("plan --direction up", "invalid value 'up'"),
    ("lab run nothing", "there is no experiment \"nothing\": there are batching, bql, bulk"),
    ("lab list nothing", "there is no experiment \"nothing\": there are batching, bql, bulk"),
    ("lab run bulk --set colour=1", "bulk has no parameter \"colour\": it has bql_hold_ns, cpus,"),
    ("lab run bulk --set cpus=65", "want a whole number from 1 to 64"),
    ("lab run bulk --set cpus", "--set cpus: want KEY=VALUE"),
    ("lab run bulk --set cpus=2 --set cpus=3", "--set cpus is given twice"),
    ("lab run bulk --seed x", "--seed"),
    ("lab run all --set cpus=2", "--set changes a parameter of one experiment"),
    ("lab run batching --world host --to nosuch:", "unknown kind of device"),
    ("lab run all --threads 2", "threads and seconds are for --world host"),
    ("lab sweep nothing --set a=1", "there is no experiment \"nothing\""),
    ("lab sweep bulk --set cpus", "--set cpus: want KEY=VALUE,VALUE..."),
    ("lab sweep bulk --set cpus=1,65", "want a whole number from 1 to 64"),
    ("lab sweep bulk --set cpus=1 --set cpus=2", "given twice"),
    ("lab sweep bulk --part 4/3", "want I/N"),
    ("lab sweep bulk --jobs 0", "want a number from 1 to 65535"),
    ("lab run pcie --world host", "pcie does not run in world host: it runs in model"),
    ("lab run tx-napi --world host", "it runs in model; on this machine it is bench/tx-napi.sh now"),
    ("lab sweep tx-napi --world host --threads 2", "it is bench/tx-napi.sh now"),
    ("lab run bulk --threads 1,2", "threads and seconds are for --world host"),
    ("lab run bulk --threads 1,0", "want a number from 1 to 1024"),
    ("lab run bulk --seconds 0", "want a time above 0"),
    ("lab run", "NAME"),
    ("lab plan", "unrecognized subcommand 'plan'"),
    ("lab man", "unrecognized subcommand 'man'"),
    ("lab lab list", "unrecognized subcommand 'lab'"),
    ("lab --version", "unexpected argument '--version'"),
];

#[test]
fn each_wrong_use_gets_an_error_with_the_allowed_values() {
    for (args, what) in WRONG {
        assert_wrong(args, what);
    }
}

#[test]
fn each_option_of_help_is_in_the_manual_and_completes() {
    assert_documented(&COMMANDS, "wharf-lab", |of| words(of.strip_prefix("lab").unwrap_or(of)));
    assert_eq!(completions("wharf-lab", &["wharf-lab", "run", "bq"]), ["bql"]);
    assert_eq!(completions("wharf-lab", &["wharf-lab", "pl"]), ["plan"]);
}

#[test]
fn pages_are_written_and_groff_takes_them_without_a_warning() {
    assert_pages(&COMMANDS);
}

#[test]
fn short_help_has_a_line_for_each_option_and_long_help_keeps_all() {
    assert_short_help(&COMMANDS);
}

#[test]
fn examples_fit_80_columns_and_name_the_program() {
    assert_examples_fit(&COMMANDS);
    assert_names_itself("wharf-lab", "lab");
}

#[test]
fn words_are_those_behind_wharf_lab() {
    for (by_itself, behind_wharf) in [
        (&["list"][..], &["lab", "list"][..]),
        (&["run", "bql", "--help"], &["lab", "run", "bql", "--help"]),
        (&["--help"], &["lab", "--help"]),
        (&["help", "run"], &["lab", "help", "run"]),
        (&["fly"], &["lab", "fly"]),
        (&[], &["lab"]),
    ] {
        let (done, wanted) = (wharf(by_itself), wharf(behind_wharf));
        assert_eq!(format!("{done:?}"), format!("{wanted:?}"), "{by_itself:?}");
    }
    assert_eq!(wharf(&["-q", "lab"]).stderr, wharf(&["lab"]).stderr, "help");
    let version = wharf(&["--version"]).stdout;
    assert!(version.starts_with(concat!("wharf ", env!("CARGO_PKG_VERSION"))), "{version}");
}

#[test]
fn a_signal_ends_an_experiment_with_the_rows_so_far() {
    let child = command(&["lab", "run", "bulk", "--set", "measure_ns=1000000000"]).spawn().unwrap();
    started(&child);
    signal(&child, "INT");
    let done = finish(child);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    assert!(done.stdout.contains("Ended by a signal."), "{}", done.stdout);
}

#[test]
fn a_full_disk_under_standard_output_is_a_failure() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let done = finish(command(&["lab", "run", "bulk", "--help"]).stdout(Stdio::from(full)).spawn().unwrap());
    assert_eq!(done.code, Some(1));
    assert!(done.line().contains("cannot write to standard output"), "{done:?}");
}

#[test]
fn a_request_for_counters_ends_no_run() {
    let child = command(&["lab", "run", "bql"]).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(150));
    signal(&child, "USR1");
    let done = finish(child);
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[test]
fn tables_are_wrapped_between_words() {
    assert_wrapped(&[&["plan"], &["lab", "list"], &["lab", "run", "bql", "--set", "phase_ns=2000000"]]);
}

#[test]
fn too_few_threads_are_no_panic_and_no_hang() {
    let two = |name| ["lab", "run", name, "--world", "host", "--seconds", "0.02", "--threads", "2"];
    assert_few_threads_will_do(&[(&two("fairness"), 7), (&two("drops"), 6), (&two("pages"), 4)]);
}

#[test]
fn no_page_is_written_through_a_link() {
    let folder = Folder::new();
    let victim = folder.file("victim", b"kept");
    let dir = text(&folder.path("dir"));
    std::fs::create_dir(&dir).unwrap();
    for name in ["report.html", "plan.html", "plan.svg"] {
        std::os::unix::fs::symlink(&victim, folder.path("dir").join(name)).unwrap();
    }
    for args in [&["lab", "run", "bql", "--report", &dir][..], &["plan", "--report", &dir]] {
        let done = wharf(args);
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    assert_eq!(std::fs::read(&victim).unwrap(), b"kept");
    for name in ["report.html", "plan.html"] {
        assert!(std::fs::symlink_metadata(folder.path("dir").join(name)).unwrap().is_file(), "{name}");
    }
}

#[test]
fn pages_have_a_verdict_of_their_own_figures() {
    let folder = Folder::new();
    let out = text(&folder.path("out"));
    assert_eq!(wharf(&["lab", "run", "bql", "--report", &out]).code, Some(0));
    let made = std::fs::read_to_string(folder.path("out/report.html")).unwrap();
    assert!(
        made.contains("without the byte queue limit, and") && !made.contains("<b>Fitted</b>"),
        "{made:.3000}"
    );
    let done = wharf(&["plan", "--report", &out]);
    assert!(done.stdout.ends_with("plan.html\n") && done.stdout.contains("written: "), "{done:?}");
    let made = std::fs::read_to_string(folder.path("out/plan.html")).unwrap();
    assert!(made.contains("<td class=\"n w\" data-is=\"both at once\">"), "words wrap");
}
