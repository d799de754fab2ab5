//! Short help, for `-h`: one line for each option, and no examples.

use crate::fold::help_width;
use std::collections::HashMap;
use std::ffi::OsString;

/// The line of help that names the commands which are installed apart.
pub(crate) const APART: &str = "Programs of their own: wharf plan, wharf lab, wharf bench";
/// Options for tests, and for those who measure a device: the short help leaves them out.
pub(crate) const TUNING: &str = "Tests and tuning";
/// Columns around the name of an option: those before it, with its short name, and those behind it, three for dots among them.
const AROUND_NAME: usize = 11;
/// Columns that the name of a command takes at most, with the blanks around it.
const COMMAND: usize = 18;
/// Characters that the names of aliases take there.
const ALIAS: usize = 18;
/// Ends of a clause, behind which a description may be cut, the best first.
const ENDS: [&str; 5] = [": ", "; ", " (", ", such as ", ", "];
/// Words behind which a description goes into detail: it may be cut in front of the last of them.
const DETAILS: [&str; 19] = [
    " that ",
    " which ",
    " what ",
    " in place of ",
    " until ",
    " while ",
    " when ",
    " before ",
    " if ",
    " from ",
    " by ",
    " with ",
    " for ",
    " at ",
    " of ",
    " on ",
    " to ",
    " over ",
    " into ",
];

/// True if `words` ask for the short help.
pub(super) fn is_asked(words: &[OsString]) -> bool {
    words.iter().any(|word| word == "-h")
}

/// Shortens the help of a command and of its subcommands. `--help` is to be asked of the command as it was.
pub(crate) fn shortened(command: clap::Command) -> clap::Command {
    let columns = help_width();
    let widths = widths(&command, columns);
    let is_apart = command.get_after_help().is_some_and(|help| help.to_string().starts_with(APART));
    let apart = if is_apart { format!("{APART}\n\n") } else { String::new() };
    let command = command
        .term_width(columns)
        .after_help(format!("{apart}--help says more, with examples."))
        .mut_args(|arg| {
            let has_alias = arg.get_visible_aliases().is_some_and(|aliases| !aliases.is_empty());
            let width =
                widths.get(arg.get_help_heading().unwrap_or_default()).copied().unwrap_or(columns / 2);
            let width = if has_alias { width - ALIAS } else { width };
            let help = arg.get_help().map(|help| short(&help.to_string(), width));
            let has_value = arg.get_action().takes_values();
            let is_hidden = arg.is_hide_set() || arg.get_help_heading() == Some(TUNING);
            let arg = arg.hide(is_hidden);
            let arg = if has_value { arg.hide_possible_values(true).hide_default_value(true) } else { arg };
            help.iter().fold(arg, |arg, help| arg.help(help.clone()))
        });
    let about = command.get_about().map(|about| short(&about.to_string(), columns - COMMAND));
    about.iter().fold(command, |command, about| command.about(about.clone())).mut_subcommands(shortened)
}

/// Returns the columns for descriptions under each heading: the names of options there are in one column.
fn widths(command: &clap::Command, columns: usize) -> HashMap<String, usize> {
    let mut widths = HashMap::new();
    for arg in command.get_arguments() {
        let left = columns.saturating_sub(AROUND_NAME + name_columns(arg)).max(columns / 3);
        let heading = arg.get_help_heading().unwrap_or_default();
        widths
            .entry(heading.to_string())
            .and_modify(|width: &mut usize| *width = left.min(*width))
            .or_insert(left);
    }
    widths
}

/// Returns the columns of an option's name with its values, such as `--rate <RATE>`.
fn name_columns(arg: &clap::Arg) -> usize {
    let values =
        arg.get_value_names().into_iter().flatten().map(|name| name.chars().count() + 3).sum::<usize>();
    let values = if arg.get_action().takes_values() { values } else { 0 };
    arg.get_long().map_or(0, |long| long.chars().count() + 2) + values
}

/// Returns the first clauses of a description that fit `width`.
fn short(text: &str, width: usize) -> String {
    let text = text.lines().next().unwrap_or_default();
    let sentence = text.split_once(". ").map_or(text, |(first, _)| first);
    let fits = |part: &str| part.chars().count() <= width;
    if fits(sentence) {
        return sentence.into();
    }
    let sentence = sentence.split_once(" [default:").map_or(sentence, |(before, _)| before);
    let cut = |end: &&str| {
        let parts = sentence.match_indices(*end).map(|(at, _)| &sentence[..at]);
        parts.filter(|part| fits(part) && is_whole(part)).last()
    };
    let detail = |end: &&str| cut(end).filter(|part| part.contains(' '));
    match ENDS.iter().find_map(cut) {
        _ if fits(sentence) => sentence.into(),
        Some(part) => part.into(),
        None => DETAILS
            .iter()
            .filter_map(detail)
            .max_by_key(|part| part.len())
            .map_or_else(|| words_of(sentence, width), str::to_string),
    }
}

/// True if every bracket is closed.
fn is_whole(text: &str) -> bool {
    text.matches(['(', '[']).count() == text.matches([')', ']']).count()
        && text.matches('`').count().is_multiple_of(2)
}

/// Returns the first words that fit, for a sentence without a clause that does.
fn words_of(sentence: &str, width: usize) -> String {
    let ends = sentence.match_indices(' ').map(|(at, _)| at);
    let at = ends.filter(|&at| sentence[..at].chars().count() + 4 <= width).max();
    at.map_or(sentence.into(), |at| format!("{} ...", &sentence[..at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_cut_behind_a_clause() {
        let short = |text| short(text, 58);
        assert_eq!(short("Packets in all"), "Packets in all");
        assert_eq!(short("Threads. There may be many of them"), "Threads");
        let long =
            "Treatment of a device that has packets and completes none for 10 s, though its line is up";
        assert_eq!(short(long), "Treatment of a device that has packets and completes none");
        let long = "Most bits per second in each direction, such as 100mbit, counted from the header on";
        assert_eq!(short(long), "Most bits per second in each direction");
        let long = "Rate: 1mpps (a long explanation, which goes on for far more than one line may hold)";
        assert_eq!(short(long), "Rate");
        let long = "Destination address [default: 198.51.100.1, or 2001:db8::2 if --src is IPv6]";
        assert_eq!(short(long), "Destination address");
    }
}
