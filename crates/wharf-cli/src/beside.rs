//! Commands that are programs of their own: `wharf lab` runs `wharf-lab`, as git runs its own. It is looked for beside this program, then
//! on PATH, and takes this process over: arguments, streams, signals and exit code are those of the program.

use crate::command_line::short::APART;
use crate::command_line::{self, OutputArgs};
use crate::output::complain;
use clap::Args;
use std::env;
use std::ffi::OsString;
use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// A command that is a program of its own.
struct Beside {
    name: &'static str,
    program: &'static str,
    /// The package that has it.
    package: &'static str,
}

const LAB: Beside = Beside { name: "lab", program: "wharf-lab", package: "lab/wharf-lab-cli" };
const ALL: [Beside; 3] = [
    LAB,
    Beside { name: "plan", ..LAB },
    Beside { name: "bench", program: "wharf-bench", package: "bench/wharf-bench" },
];

/// Leaves them out of help's list of commands, and names them below it. Completions and manuals have them.
pub(crate) fn apart(command: clap::Command) -> clap::Command {
    let more =
        format!("{APART}\n\n{}", command.get_after_help().map(ToString::to_string).unwrap_or_default());
    ALL.iter()
        .fold(command, |command, one| command.mut_subcommand(one.name, |of| of.hide(true)))
        .after_help(more)
}

/// The words of such a command, which its program reads.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct BesideArgs {
    /// Arguments of the program; --help lists them
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Runs, in place of this program, the one of the command that `words` name. Returns the exit code if it cannot be run, and none if they
/// name a command of this program.
pub(crate) fn run(words: &[OsString]) -> Option<ExitCode> {
    let (options, at) = command_line::options(words)?;
    let (beside, own) = asked(&words[at..])?;
    let Beside { name, program, package, .. } = beside;
    let exec = |path: &Path| Command::new(path).args(&words[1..at]).args(&own).exec();
    let path = beside_this(program);
    let error = exec(&path);
    // What cannot be run here, a folder for example, does not hide a program on PATH.
    let on_path = exec(program.as_ref());
    // A start that fails leaves SIGPIPE at its default, which ends the process.
    command_line::prepare(words);
    options.start();
    complain(&match (error.kind(), on_path.kind()) {
        (ErrorKind::NotFound, ErrorKind::NotFound) => format!(
            "{name}: {program} is neither beside this program nor on PATH; from a checkout: cargo install --path {package}"
        ),
        (ErrorKind::NotFound, _) => format!("cannot run {program}: {on_path}"),
        _ => format!("cannot run {}: {error}", path.display()),
    });
    Some(ExitCode::FAILURE)
}

/// Returns the command that is asked for, or whose help or manual is, and the words for its program.
fn asked(words: &[OsString]) -> Option<(&'static Beside, Vec<OsString>)> {
    let of = |word: &OsString| ALL.iter().find(|one| word == one.name);
    let (first, rest) = words.split_first()?;
    match first.to_str()? {
        "help" => Some((of(rest.first()?)?, [rest, &["--help".into()]].concat())),
        "man" => Some((of(rest.first()?)?, words.to_vec())),
        _ => Some((of(first)?, words.to_vec())),
    }
}

impl Beside {
    /// True if its program runs it where no other is named: `wharf-lab run` is `wharf lab run`.
    fn is_own(&self) -> bool {
        self.program.strip_prefix("wharf-") == Some(self.name)
    }
}

/// Returns the path that `program` has beside this one.
fn beside_this(program: &str) -> PathBuf {
    env::current_exe().map(|this| this.with_file_name(program)).unwrap_or_else(|_| program.into())
}

/// True if `program` can be run, from beside this one or from PATH.
pub(crate) fn is_there(program: &str) -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&folders).map(|folder| folder.join(program));
    let is_program = |file: Metadata| file.is_file() && file.permissions().mode() & 0o111 != 0;
    on_path.chain([beside_this(program)]).any(|path| path.metadata().is_ok_and(is_program))
}

/// Returns each command that is a program, with the first words of a line of that program that names it.
pub(crate) fn calls() -> impl Iterator<Item = (&'static str, String)> {
    let named = |one: &Beside| if one.is_own() { String::new() } else { format!(" {}", one.name) };
    ALL.iter().map(move |one| (one.name, format!("{}{}", one.program, named(one))))
}

/// Returns the command that `program` runs where no other is named.
pub(crate) fn own_command(program: &str) -> Option<&'static str> {
    ALL.iter().find(|one| one.program == program && one.is_own()).map(|one| one.name)
}

/// Returns the program of the command `name`.
pub(crate) fn program_of(name: &str) -> &'static str {
    ALL.iter().find(|one| one.name == name).map_or("wharf", |one| one.program)
}

/// Returns the definition of `program` as it is called by itself, from that of its commands behind `wharf`.
pub(crate) fn by_itself(program: &'static str, definition: &clap::Command) -> clap::Command {
    let of = |one: &&Beside| one.program == program;
    let commands = ALL.iter().filter(of).filter_map(|one| Some((one, definition.find_subcommand(one.name)?)));
    let commands = commands.flat_map(|(one, command)| match one.is_own() {
        true => command.get_subcommands().cloned().collect(),
        false => vec![command.clone()],
    });
    OutputArgs::augment_args(clap::Command::new(program)).subcommands(commands)
}

/// Returns the words of a program with this definition as they are behind `wharf`: those of `wharf-lab run` are `wharf lab run`, where `name`
/// is `lab`. A command of the definition, such as `plan`, stays as it is.
pub fn behind_wharf(mut words: Vec<OsString>, name: &str, definition: &clap::Command) -> Vec<OsString> {
    let at = command_line::options(&words).map_or(1, |(_, at)| at);
    let is_command = |word: &OsString| definition.find_subcommand(word).is_some();
    let is_version = |word: &OsString| ["--version", "-V", "version"].iter().any(|version| word == version);
    match words.get(at) {
        Some(word) if is_command(word) || words.len() == 2 && is_version(word) => {}
        _ => words.insert(at.min(words.len()), name.into()),
    }
    // Help and errors name the program by this word.
    words.splice(..1, ["wharf".into()]);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn words_reach_the_program_as_they_are() {
        let asked = |line: &str| {
            let words = words(line);
            let (_, at) = command_line::options(&words)?;
            asked(&words[at..]).map(|(beside, own)| (beside.program, own))
        };
        for (line, program, own) in [
            ("wharf lab run bulk --help", "wharf-lab", "lab run bulk --help"),
            ("wharf lab plan", "wharf-lab", "lab plan"),
            ("wharf -q --color never plan -- --nic cx5", "wharf-lab", "plan -- --nic cx5"),
            ("wharf --log=json -vv bench path -q", "wharf-bench", "bench path -q"),
            ("wharf help lab run", "wharf-lab", "lab run --help"),
            ("wharf help plan", "wharf-lab", "plan --help"),
            ("wharf man lab run", "wharf-lab", "man lab run"),
        ] {
            assert_eq!(asked(line), Some((program, words(own))), "{line}");
        }
        let own = ["send lab", "--help lab", "--color mauve lab", "man send", "help send", "help", "man"];
        for line in own.map(|line| format!("wharf {line}")).iter().map(String::as_str).chain(["wharf"]) {
            assert_eq!(asked(line), None, "{line}");
        }
    }

    #[test]
    fn words_of_a_program_are_those_behind_wharf() {
        let definition = clap::Command::new("wharf").subcommands(["lab", "plan"].map(clap::Command::new));
        for (line, behind) in [
            ("wharf-lab run bulk", "wharf lab run bulk"),
            ("wharf-lab -q run bulk", "wharf -q lab run bulk"),
            ("wharf-lab lab run bulk", "wharf lab run bulk"),
            ("wharf-lab --help", "wharf lab --help"),
            ("wharf-lab", "wharf lab"),
            ("wharf-lab -q", "wharf lab -q"),
            ("wharf-lab --color never plan --nic cx5", "wharf --color never plan --nic cx5"),
            ("wharf-lab --version", "wharf --version"),
        ] {
            assert_eq!(behind_wharf(words(line), "lab", &definition), words(behind), "{line}");
        }
    }
}
