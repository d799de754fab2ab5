//! Text and tables within the width of the terminal that is standard output: nothing is cut in mid-word.

use comfy_table::{ColumnConstraint, ContentArrangement, Table};

/// Columns where neither a terminal nor COLUMNS says how many there are.
const WIDTH: u16 = 80;
/// Most columns of help.
const HELP_MAX: usize = 100;
/// Least width of them.
const WIDTH_MIN: u16 = 40;
/// Bytes from which on a word is folded itself, behind its commas.
const WORD_MAX: usize = 30;

/// Returns a paragraph, wrapped to the columns that there are. Further lines are indented.
pub(crate) fn paragraph(text: &str) -> String {
    fold(text, width().into())
}

/// Folds each line to the terminal, between words and behind commas and bars. A program that reads it gets whole lines.
pub fn folded(text: &str) -> String {
    let Some(columns) = terminal_columns() else { return text.to_string() };
    text.lines().map(|line| fold(line, columns.into())).collect::<Vec<_>>().join("\n")
}

/// Wraps the last column of a table to the terminal, if that is narrower.
pub fn wrap_last(table: &mut Table) {
    let Some(columns) = terminal_columns() else { return };
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns);
    let last = table.column_count().saturating_sub(1);
    for column in table.column_iter_mut().filter(|column| column.index < last) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
}

/// Returns the columns of wrapped tables and paragraphs: those of the terminal, or of COLUMNS.
pub(crate) fn width() -> u16 {
    let set = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal_columns().or_else(set).map_or(WIDTH, |columns| columns.max(WIDTH_MIN))
}

/// Returns the columns of short help.
pub(crate) fn help_width() -> usize {
    usize::from(width()).clamp(60, HELP_MAX)
}

/// Returns the columns of the terminal that is standard output, if it is one.
pub fn terminal_columns() -> Option<u16> {
    let columns = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| size.ws_col);
    (columns > 0).then(|| columns.max(WIDTH_MIN))
}

fn fold(text: &str, columns: usize) -> String {
    let text_at = text.len() - text.trim_start().len();
    let (indent, text) = text.split_at(text_at);
    let (mut folded, mut column) = (indent.to_string(), indent.len());
    for (at, part) in parts(text).into_iter().enumerate() {
        let letters = part.trim_end().chars().count();
        if at > 0 && column + letters > columns {
            folded.truncate(folded.trim_end().len());
            folded = format!("{folded}\n{indent}  ");
            column = indent.len() + 2;
        }
        folded.push_str(&part);
        column += part.chars().count();
    }
    folded
}

/// Returns the parts of a line between which it may be folded: words, and those of a list without blanks that is too long for a line.
fn parts(text: &str) -> Vec<String> {
    let words = text.split_inclusive(' ').fold(Vec::new(), joined_with_unit);
    let of_word = |word: String| match word.len() {
        0..WORD_MAX => vec![word],
        _ => word.split_inclusive([',', '|', '/']).map(str::to_string).collect(),
    };
    words.into_iter().flat_map(of_word).collect()
}

/// Adds a word to `words`: to a number, its unit.
fn joined_with_unit(mut words: Vec<String>, word: &str) -> Vec<String> {
    match words.last_mut() {
        Some(number) if number.trim_end().ends_with(|last: char| last.is_ascii_digit()) => {
            number.push_str(word)
        }
        _ => words.push(word.to_string()),
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_is_folded_between_words() {
        assert_eq!(fold("one two three four", 9), "one two\n  three\n  four");
        assert_eq!(fold("a rate of 10 kpps", 12), "a rate of\n  10 kpps");
        let usage = "  packet:INTERFACE[,bypass=off|on,ring=1024] to send";
        assert_eq!(fold(usage, 40), "  packet:INTERFACE[,bypass=off|on,\n    ring=1024] to send");
        assert_eq!(fold("one", 2), "one");
    }
}
