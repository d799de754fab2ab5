//! The frame of every page of a report: one file of HTML that opens without a network, and runs no script.
//! Colours follow the reader's system, and so do those of the pictures.
//!
//! - [`picture`]: the frame of every picture, and lines.
#![forbid(unsafe_code)]

pub mod picture;

const STYLE: &str = "\
:root{--fg:#1c1c1c;--bg:#fff;--dim:#5a5a5a;--line:#ccc;--code:#f1f1f1;--bad:#a33000;--fit:#8a8a8a;--near:#0072b2;--far:#b28f00;--not:#d55e00}
@media screen and (prefers-color-scheme:dark){:root{color-scheme:dark;--fg:#e6e6e6;--bg:#161616;--dim:#a8a8a8;--line:#444;--code:#262626;--bad:#ff9d70;--near:#3d9be0}}
body{font:16px/1.5 sans-serif;color:var(--fg);background:var(--bg);max-width:76rem;margin:0 auto;padding:1rem;overflow-wrap:anywhere}
h1{font-size:1.6rem;margin:.3rem 0}h2{font-size:1.3rem;border-top:1px solid var(--line);padding-top:1rem;margin-top:2.5rem}
code{background:var(--code);padding:.1em .3em;border-radius:3px}a{color:inherit}
.answer{font-size:1.15rem;margin:.8rem 0}
.wide{overflow-x:auto;margin:1rem 0}table{border-collapse:collapse;font-size:.85rem}
th,td{text-align:left;vertical-align:top;padding:.25rem .6rem;border-bottom:1px solid var(--line);overflow-wrap:break-word}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}td.w,th.w{white-space:normal}td.l{min-width:9rem;overflow-wrap:anywhere}td.t{min-width:14rem}
figure{margin:1rem 0}figcaption{color:var(--dim);font-size:.9rem}figcaption code{font-size:.8rem}
.pictures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,27rem),1fr));gap:0 1.5rem;align-items:start}
.picture{overflow-x:auto;background:var(--bg);border:1px solid var(--line)}.picture svg{display:block;width:100%;min-width:340px;height:auto}
.strip{display:flex;flex-wrap:wrap;gap:.3rem 2rem;margin:.8rem 0 .4rem;padding:0;list-style:none}.strip b{font-size:1.7rem;margin-right:.35rem;font-variant-numeric:tabular-nums}
.bar{display:flex;height:.9rem;min-width:6rem}.bar i{display:block;height:100%}
.fit{background:var(--fit)}.near{background:var(--near)}.far{background:var(--far)}.not{background:var(--not)}
@media(max-width:36rem){.rows tr{display:flex;flex-wrap:wrap;border-bottom:1px solid var(--line);padding:.3rem 0}.rows tr:first-child{display:none}
.rows td{border:0;padding:0 1rem 0 0}.rows td:first-child,.rows td.t{flex:0 0 100%;min-width:0;padding:0;white-space:normal;overflow-wrap:anywhere}
.rows td:first-child{font-weight:600}.rows td.n::before{color:var(--dim);content:attr(data-is)\" \"}}
@media print{body{max-width:none;padding:0}.wide,.picture{overflow:visible}.picture{max-width:440px;border:0}h2,summary{break-after:avoid}figcaption{break-before:avoid}
table{font-size:.6rem}tr{break-inside:avoid}td.n,th.n{white-space:normal}td.l,td.t{min-width:0}th,td{overflow-wrap:anywhere;padding:.15rem .4rem}}
.bad{color:var(--bad)}.dim{color:var(--dim)}summary{cursor:pointer}pre{font-size:.85rem;overflow-x:auto;background:var(--code);padding:.5rem}pre.wrap{white-space:pre-wrap}";

/// Returns the page of this title around `body`.
pub fn document(title: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head>\n<body><h1>{title}</h1>\n{body}</body></html>\n"
    )
}

/// Returns a picture with its caption, the file that it is in by itself, if any, and the command that draws it again, if any.
pub fn figure(svg: &str, caption: &str, file: Option<&str>, command: Option<&str>) -> String {
    let file = file.map(|name| format!(" (<a href=\"{name}\">{name}</a>)")).unwrap_or_default();
    let command = command.map(|command| format!("<br><code>{}</code>", escaped(command))).unwrap_or_default();
    let caption = marked(caption);
    format!(
        "<figure><div class=\"picture\">{svg}</div><figcaption>{caption}{file}{command}</figcaption></figure>\n"
    )
}

/// Returns a table of names and values.
pub fn facts<'a>(facts: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let row = |(name, value): (&str, &str)| {
        format!("<tr><th scope=\"row\">{}</th><td>{}</td></tr>", escaped(name), escaped(value))
    };
    let rows: String = facts.into_iter().map(row).collect();
    format!("<div class=\"wide\"><table>{rows}</table></div>\n")
}

/// Returns `text` with the characters replaced that HTML and SVG reserve, quotes included, or do not have.
pub fn escaped(text: &str) -> String {
    let shown = |letter: char| match letter {
        '&' => "&amp;".into(),
        '<' => "&lt;".into(),
        '>' => "&gt;".into(),
        '"' => "&quot;".into(),
        letter if letter.is_control() && !letter.is_whitespace() => letter.escape_debug().to_string(),
        letter => letter.to_string(),
    };
    text.chars().map(shown).collect()
}

/// Returns text for HTML as [`escaped`] does, with what stands between two backticks as code.
pub fn marked(text: &str) -> String {
    let escaped = escaped(text);
    let parts: Vec<&str> = escaped.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return escaped;
    }
    let part = |(at, part): (usize, &&str)| match at % 2 {
        0 => (*part).to_string(),
        _ => format!("<code>{part}</code>"),
    };
    parts.iter().enumerate().map(part).collect()
}
