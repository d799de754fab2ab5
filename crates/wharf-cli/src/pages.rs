//! `wharf completions` and `wharf man`: texts made from the command line's own definition.

use crate::args::{CompletionsArgs, ManArgs, Shell, command};
use crate::files::write_page;
use crate::output::print;
use crate::{Registries, explain, usage};
use anyhow::Context;
use clap::builder::PossibleValuesParser;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::path::Path;

/// Prints the completions of a shell.
pub(crate) fn completions(args: &CompletionsArgs, registries: &Registries) -> anyhow::Result<()> {
    let shell = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let (mut command, mut script) = (with_words(command(registries), registries), Vec::new());
    clap_complete::generate(shell, &mut command, "wharf", &mut script);
    let mut script = String::from_utf8(script)?;
    if shell == clap_complete::Shell::Fish {
        fish_words(&command, "", &mut script);
    }
    print(script.trim_end())
}

/// Adds the words of commands that are no options, which `clap_complete` leaves out for fish. `condition` is that of `command` itself.
fn fish_words(command: &clap::Command, condition: &str, script: &mut String) {
    let values = command.get_positionals().flat_map(|arg| arg.get_possible_values());
    let words: Vec<String> = values.map(|value| value.get_name().to_string()).collect();
    if !words.is_empty() {
        *script += &format!("complete -c wharf -n \"{condition}\" -a \"{}\"\n", words.join(" "));
    }
    for inner in command.get_subcommands() {
        let name = inner.get_name();
        let condition = match condition {
            "" => format!("__fish_wharf_using_subcommand {name}"),
            outer => format!("{outer}; and __fish_seen_subcommand_from {name}"),
        };
        fish_words(inner, &condition, script);
    }
}

/// Adds the words that `explain` and `lab run` take, which help does not list.
fn with_words(command: clap::Command, registries: &Registries) -> clap::Command {
    let experiments = wharf_lab::experiment::all().iter().map(|experiment| experiment.name).chain(["all"]);
    let experiments = PossibleValuesParser::new(experiments.collect::<Vec<_>>());
    let of_lab = |lab: clap::Command| {
        lab.mut_subcommand("run", |run| run.mut_arg("name", |name| name.value_parser(experiments)))
    };
    let words = PossibleValuesParser::new(explain::words(&registries.devices));
    let command = command.mut_subcommand("lab", of_lab);
    command.mut_subcommand("explain", |explain| explain.mut_arg("word", |word| word.value_parser(words)))
}

/// Prints the page of a command, or writes all pages into a folder.
pub(crate) fn man(args: &ManArgs, registries: &Registries) -> anyhow::Result<()> {
    let mut all = command(registries).disable_help_subcommand(true);
    all.build();
    let named = args.what.iter().try_fold(&all, |command, word| command.find_subcommand(word));
    match (named, &args.what[..]) {
        (Some(named), _) => print(page(named)?.trim_end()),
        (None, [folder]) if Path::new(folder).is_dir() => write_all(&all, Path::new(folder)),
        (None, words) => {
            let words = words.join(" ");
            Err(usage(format!("{}: neither a command nor a folder that exists", words.escape_debug())))
        }
    }
}

/// Writes the pages of a command and of its subcommands.
fn write_all(command: &clap::Command, folder: &Path) -> anyhow::Result<()> {
    let path = folder.join(Man::new(command.clone()).get_filename());
    write_page(&path, page(command)?.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))?;
    command.get_subcommands().try_for_each(|command| write_all(command, folder))
}

/// Returns the page of a command. Its examples keep their lines.
fn page(command: &clap::Command) -> anyhow::Result<String> {
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let name = command.get_display_name().unwrap_or("wharf").to_string();
    let man = Man::new(with_aliases(command.clone()))
        .title(name.to_uppercase())
        .source(format!("wharf {}", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    notes(&after).to_writer(&mut text)?;
    Ok(String::from_utf8(text)?)
}

/// Adds the other names of options to their descriptions.
fn with_aliases(command: clap::Command) -> clap::Command {
    command.mut_args(|arg| match (arg.get_visible_aliases(), arg.get_help()) {
        (Some(aliases), Some(help)) if !aliases.is_empty() => {
            let help = format!("{help} [alias: --{}]", aliases.join(", --"));
            arg.help(help)
        }
        _ => arg,
    })
}

/// Returns the text behind the options: paragraphs, and lines that begin with a blank as they are.
fn notes(text: &str) -> Roff {
    let mut roff = Roff::new();
    let mut is_filled = true;
    for line in text.lines() {
        let fills = !line.starts_with(' ');
        match (fills, std::mem::replace(&mut is_filled, fills)) {
            (true, false) => roff.control("fi", []),
            (false, true) => roff.control("nf", []),
            _ => &mut roff,
        };
        match line {
            "" => roff.control("PP", []),
            "Examples:" => roff.control("SH", ["EXAMPLES"]),
            line => roff.text([roman(line)]),
        };
    }
    if !is_filled {
        roff.control("fi", []);
    }
    roff
}
