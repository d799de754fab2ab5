//! Text as a terminal may show it. What comes from outside (names of interfaces, arguments, answers) is escaped
//! by the printer, once.

use std::borrow::Cow;

/// Returns a text without letters that a terminal obeys, each escaped by `how`: control characters, and those
/// that turn the direction of writing.
pub(crate) fn escaped(text: &str, how: fn(char) -> String) -> Cow<'_, str> {
    let is_obeyed = |letter: char| match letter {
        '\n' | '\t' => false,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        letter => letter.is_control(),
    };
    if !text.contains(is_obeyed) {
        return text.into();
    }
    text.chars().map(|letter| if is_obeyed(letter) { how(letter) } else { letter.into() }).collect()
}

/// Returns a text as people see it.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| letter.escape_debug().to_string())
}
