//! Words that only this machine knows, for completions: devices of its interfaces, and runs. A shell's script
//! has `wharf words KIND` in their place, which it runs as a line is completed.

use crate::args::WordsArgs;
use crate::output::print;
use crate::pages::{DEVICES, RUNS};
use crate::watch::runs;
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};
use std::any::TypeId;
use wharf_devices::interfaces::HostInterface;
use wharf_devices::registry::Registry;
use wharf_devices::spec::DeviceSpec;

/// What `wharf set` changes.
const CHANGES: [&str; 8] =
    ["rate=", "bucket=", "bql=", "batch=", "qdisc=", "small-queues=", "when-full=", "link="];

/// Prints the words that there are now, one a line.
pub(crate) fn words(args: &WordsArgs, registry: &Registry) -> anyhow::Result<()> {
    let words: Vec<String> = match args.kind.as_str() {
        "runs" => runs(),
        _ => HostInterface::all().iter().flat_map(|interface| devices(interface, registry)).collect(),
    };
    print(&words.into_iter().filter(|word| is_plain(word)).collect::<Vec<_>>().join("\n"))
}

/// True if no shell makes anything else of a word: that of bash expands the words of a completion once more, and
/// would run what is in the name of an interface.
fn is_plain(word: &str) -> bool {
    word.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.:@/+,".contains(letter))
}

fn devices(interface: &HostInterface, registry: &Registry) -> Vec<String> {
    let kinds = registry.kinds().iter().filter(|kind| interface.is_for(kind));
    kinds.map(|kind| format!("{}:{}", kind.name, interface.name)).collect()
}

/// Adds the devices of interfaces to what a command line offers for completion.
pub fn with_devices(command: Command) -> Command {
    let reads_device = |arg: &Arg| arg.get_value_parser().type_id() == TypeId::of::<DeviceSpec>();
    let command = command.mut_args(|arg| {
        if !reads_device(&arg) {
            return arg;
        }
        let mut words: Vec<String> =
            arg.get_possible_values().iter().map(|word| word.get_name().into()).collect();
        words.push(DEVICES.into());
        arg.value_parser(PossibleValuesParser::new(words)).hide_possible_values(false)
    });
    command.mut_subcommands(with_devices)
}

/// Adds the places of such words to the definition of the command line.
pub(crate) fn with_places(command: Command) -> Command {
    with_devices(command).mut_subcommands(|command| {
        let name = command.get_name().to_string();
        command.mut_args(|arg| {
            let words: Vec<String> = match (name.as_str(), arg.get_id().as_str()) {
                ("doctor", "subject") => vec![DEVICES.into()],
                ("show" | "top", "which") => vec![RUNS.into()],
                ("set", "words") => [RUNS].into_iter().chain(CHANGES).map(String::from).collect(),
                _ => return arg,
            };
            arg.value_parser(PossibleValuesParser::new(words)).hide_possible_values(false)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_a_shell_would_run_is_no_word() {
        for word in
            ["packet:eth0", "xdp:wg-home_1.20", "packet:veth1@if5", "1234", "/run/user/1000/wharf-7.sock"]
        {
            assert!(is_plain(word), "{word}");
        }
        for word in [
            "packet:$(id>o)",
            "packet:`id`",
            "packet:a b",
            "packet:a;b",
            "packet:a\nb",
            "packet:~",
            "packet:*",
        ] {
            assert!(!is_plain(word), "{word}");
        }
    }
}
