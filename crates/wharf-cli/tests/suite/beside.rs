//! Commands that are programs of their own: found beside the command, or on PATH, or not at all.

use crate::common::{Done, Folder, PROGRAM, finish, install, signal, text};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

/// A program that prints its name and arguments, passes its input on, writes to standard error, and ends with code 7.
const SAYS: &str = "#!/bin/sh\necho \"$(basename $0):$*\"\ncat\necho error >&2\nexit 7\n";

/// Makes `folder` with the command in it, and returns the command's path.
fn installed(folder: &Folder, name: &str) -> String {
    fs::create_dir(folder.path(name)).unwrap();
    let path = folder.path(name).join("wharf");
    fs::hard_link(PROGRAM, &path).unwrap_or_else(|_| install(PROGRAM, &path));
    text(&path)
}

/// Adds a script to a folder.
fn add(folder: &Folder, name: &str, script: &str) {
    install(&folder.file("script", script.as_bytes()), &folder.path(name));
}

fn command(wharf: &str, args: &str) -> Command {
    let mut command = Command::new(wharf);
    command.args(args.split_whitespace()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(wharf: &str, args: &str) -> Done {
    finish(command(wharf, args).spawn().unwrap())
}

#[test]
fn a_program_beside_the_command_gets_all_words_and_its_code_is_the_commands() {
    let folder = Folder::new();
    let wharf = installed(&folder, "bin");
    ["wharf-lab", "wharf-bench"].iter().for_each(|name| add(&folder, &format!("bin/{name}"), SAYS));
    for (args, says) in [
        ("lab run bulk --set a=1 -q", "wharf-lab:lab run bulk --set a=1 -q"),
        ("lab", "wharf-lab:lab"),
        ("lab --help", "wharf-lab:lab --help"),
        ("lab run -h", "wharf-lab:lab run -h"),
        ("lab help run", "wharf-lab:lab help run"),
        ("help lab run", "wharf-lab:lab run --help"),
        ("plan --nic cx5 --json", "wharf-lab:plan --nic cx5 --json"),
        ("help plan", "wharf-lab:plan --help"),
        ("bench path --json", "wharf-bench:bench path --json"),
        ("-q --color never lab list", "wharf-lab:-q --color never lab list"),
        ("-vv --log=json plan -q", "wharf-lab:-vv --log=json plan -q"),
        ("man lab run", "wharf-lab:man lab run"),
    ] {
        let done = run(&wharf, args);
        assert_eq!(
            (done.code, done.stdout.trim_end(), done.stderr.as_str()),
            (Some(7), says, "error\n"),
            "{args}"
        );
    }
}

#[test]
fn a_program_gets_the_standard_streams() {
    let folder = Folder::new();
    let wharf = installed(&folder, "bin");
    add(&folder, "bin/wharf-lab", SAYS);
    let input = fs::File::open(folder.file("input", b"what is passed on\n")).unwrap();
    let done = finish(command(&wharf, "lab").stdin(input).spawn().unwrap());
    assert_eq!(done.stdout, "wharf-lab:lab\nwhat is passed on\n");
}

#[test]
fn what_cannot_be_run_beside_the_command_does_not_hide_a_program_on_path() {
    let folder = Folder::new();
    let wharf = installed(&folder, "bin");
    add(&folder, "path/wharf-lab", SAYS);
    let path = format!("{}:{}", text(&folder.path("path")), std::env::var("PATH").unwrap());
    let list = || finish(command(&wharf, "lab list").env("PATH", &path).spawn().unwrap()).stdout;
    let beside = folder.path("bin/wharf-lab");
    fs::create_dir(&beside).unwrap();
    assert_eq!(list(), "wharf-lab:lab list\n", "a folder");
    fs::remove_dir(&beside).unwrap();
    fs::write(&beside, "notes").unwrap();
    assert_eq!(list(), "wharf-lab:lab list\n", "a file that is no program");
}

#[test]
fn a_program_on_path_is_run_unless_one_is_beside_the_command() {
    let folder = Folder::new();
    let wharf = installed(&folder, "bin");
    add(&folder, "path/wharf-lab", SAYS);
    let path = format!("{}:{}", text(&folder.path("path")), std::env::var("PATH").unwrap());
    let done = || finish(command(&wharf, "lab list").env("PATH", &path).spawn().unwrap());
    assert_eq!((done().code, done().stdout.as_str()), (Some(7), "wharf-lab:lab list\n"));
    add(&folder, "bin/wharf-lab", "#!/bin/sh\necho beside\n");
    assert_eq!((done().code, done().stdout.as_str()), (Some(0), "beside\n"));
}

#[test]
fn a_program_that_is_not_there_is_one_line() {
    let folder = Folder::new();
    let wharf = installed(&folder, "bin");
    let done = |args: &str| finish(command(&wharf, args).env("PATH", folder.path("none")).spawn().unwrap());
    for (args, package) in [
        ("lab list", "lab/wharf-lab-cli"),
        ("plan --help", "lab/wharf-lab-cli"),
        ("-q bench path", "bench/wharf-bench"),
    ] {
        let done = done(args);
        assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""), "{args}");
        assert!(done.line().ends_with(&format!("cargo install --path {package}")), "{done:?}");
    }
    let record = done("--log json lab list").stderr;
    assert!(record.starts_with('{') && record.contains("wharf-lab"), "{record}");
    fs::write(folder.path("bin/wharf-lab"), SAYS).unwrap();
    let refused = done("lab list");
    assert!(refused.code == Some(1) && refused.line().contains("Permission denied"), "{refused:?}");
}

#[test]
fn a_failure_that_standard_error_does_not_take_is_exit_code_1() {
    let folder = Folder::new();
    let wharf = installed(&folder, "bin");
    let code = |mut command: Command| {
        let command = command.env("PATH", folder.path("none")).stdin(Stdio::null()).stdout(Stdio::null());
        command.status().unwrap().code()
    };
    let closed = |args: &str| {
        let mut command = command(&wharf, args);
        let (_, writer) = std::io::pipe().unwrap();
        command.stderr(writer);
        command
    };
    // `send` fails as a program that is not there does.
    for args in ["lab list", "--log json lab list", "send --pcap none"] {
        assert_eq!(code(closed(args)), Some(1), "{args}: nobody reads it");
        let mut limited = Command::new("/bin/bash");
        let script = format!("ulimit -f 0; exec {wharf} {args} 2>{}", text(&folder.path("error")));
        limited.args(["-c", &script]);
        assert_eq!(code(limited), Some(1), "{args}: it is a file that may have no byte");
    }
}

#[test]
fn a_signal_reaches_the_program_and_its_end_is_the_commands() {
    let folder = Folder::new();
    let wharf = installed(&folder, "bin");
    add(
        &folder,
        "bin/wharf-bench",
        "#!/bin/sh\ntrap 'exit 5' TERM INT\necho ready\nwhile :; do sleep 0.02; done\n",
    );
    let child = |signal_name: &str| {
        let mut child = command(&wharf, "bench path").spawn().unwrap();
        let mut ready = [0; 6];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
        signal(&child, signal_name);
        child.wait().unwrap()
    };
    assert_eq!(child("TERM").code(), Some(5));
    assert_eq!(child("KILL").signal(), Some(9));
}
