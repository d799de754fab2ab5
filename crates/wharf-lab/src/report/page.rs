//! The page. Colours follow the reader's system; pictures keep the white ground on which they were drawn.

use super::chart::Picture;
use super::{Machine, Section};
use crate::experiment::{Parameters, Row, RowKind};
use std::fmt::Write as _;
use wharf_plan::escaped;

const STYLE: &str = "\
:root{--fg:#1c1c1c;--bg:#fff;--dim:#5a5a5a;--line:#ccc;--code:#f1f1f1;--bad:#a33000}
@media screen and (prefers-color-scheme:dark){:root{color-scheme:dark;--fg:#e6e6e6;--bg:#161616;--dim:#a8a8a8;--line:#444;--code:#262626;--bad:#ff9d70}}
body{font:16px/1.5 sans-serif;color:var(--fg);background:var(--bg);max-width:72rem;margin:0 auto;padding:1rem;overflow-wrap:anywhere}
h1{font-size:1.6rem}h2{font-size:1.3rem;border-top:1px solid var(--line);padding-top:1rem;margin-top:2.5rem}
code{background:var(--code);padding:.1em .3em;border-radius:3px}a{color:inherit}
.wide{overflow-x:auto;margin:1rem 0}table{border-collapse:collapse;font-size:.85rem}
th,td{text-align:left;vertical-align:top;padding:.25rem .6rem;border-bottom:1px solid var(--line);overflow-wrap:normal}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}td.l{white-space:nowrap}td.t{min-width:14rem}
figure{margin:1.5rem 0}figcaption{color:var(--dim);font-size:.9rem}
.picture{overflow-x:auto;background:#fff;border:1px solid var(--line);max-width:600px}.picture svg{display:block;width:100%;min-width:340px;height:auto}
@media(max-width:36rem){.rows tr{display:flex;flex-wrap:wrap;border-bottom:1px solid var(--line);padding:.3rem 0}.rows tr:first-child{display:none}
.rows td{border:0;padding:0 1rem 0 0}.rows td:first-child,.rows td.t{flex:0 0 100%;min-width:0;padding:0;white-space:normal;overflow-wrap:anywhere}
.rows td:first-child{font-weight:600}.rows td.n::before{color:var(--dim);content:attr(data-is)\" \"}}
@media print{body{max-width:none;padding:0}.wide,.picture{overflow:visible}.picture{max-width:440px;border:0}h2,summary{break-after:avoid}figcaption{break-before:avoid}
table{font-size:.6rem}tr{break-inside:avoid}td.l,td.n,th.n{white-space:normal}td.t{min-width:0}th,td{overflow-wrap:anywhere;padding:.15rem .4rem}}
.bad{color:var(--bad)}.dim{color:var(--dim)}summary{cursor:pointer}";

/// Returns the whole page.
pub(super) fn page(sections: &[Section], pictures: &[Vec<Picture>], machine: &Machine) -> String {
    let mut page = String::new();
    let names: Vec<&str> = sections.iter().map(|section| section.report.experiment).collect();
    let title = format!("wharf lab: {}", names.join(", "));
    // Writing to a String cannot fail.
    let _ = writeln!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{}</title><style>{STYLE}</style></head>\n<body><h1>{}</h1>",
        escaped(&title),
        escaped(&title)
    );
    page.push_str(
        "<p>Each published figure stands beside ours. <b>fitted</b>: a parameter was chosen so that it comes out. \
         <b>predicted</b>: it follows from parameters chosen for other figures, or set for this run. <b>measured</b>: on a \
         real machine. The residual is ours less the published one, in percent of that; of differences, in \
         points; where 0 was published, in the unit of the row. In world model the same command \
         gives the same figures, to the byte, on any machine.</p>\n",
    );
    machine_table(&mut page, machine);
    let of = |section: &Section| {
        let id = id_of(section);
        format!("<li><a href=\"#{id}\">{}</a>: {}</li>", section.report.experiment, escaped(section.what))
    };
    let _ = writeln!(page, "<ul>{}</ul>", sections.iter().map(of).collect::<String>());
    for (section, pictures) in sections.iter().zip(pictures) {
        section_of(&mut page, section, pictures);
    }
    page.push_str("</body></html>\n");
    page
}

fn id_of(section: &Section) -> String {
    format!("{}-{}", section.report.experiment, section.report.world)
}

fn machine_table(page: &mut String, machine: &Machine) {
    let row = |(name, value): &(String, String)| {
        format!("<tr><th scope=\"row\">{}</th><td>{}</td></tr>", escaped(name), escaped(value))
    };
    let rows: String = machine.facts.iter().map(row).collect();
    let _ = writeln!(page, "<div class=\"wide\"><table>{rows}</table></div>");
}

fn section_of(page: &mut String, section: &Section, pictures: &[Picture]) {
    let (report, command) = (&section.report, escaped(&section.command));
    let _ = writeln!(page, "<h2 id=\"{}\">{}</h2>", id_of(section), report.experiment);
    let ended =
        if report.interrupted { " <b class=\"bad\">Ended early: there are fewer figures.</b>" } else { "" };
    let _ = write!(
        page,
        "<p>{}. World {}, seed {}.{ended}<br>Command: <code>{command}</code></p>\n{}",
        escaped(section.what),
        report.world,
        report.seed,
        verdict(&report.rows)
    );
    for picture in pictures {
        let _ = writeln!(
            page,
            "<figure><div class=\"picture\">{}</div><figcaption>{} (<a href=\"{}\">{}</a>). \
             Command: <code>{command} --report DIR</code></figcaption></figure>",
            picture.svg,
            escaped(&picture.title),
            picture.file,
            picture.file
        );
    }
    let (beside, alone): (Vec<&Row>, Vec<&Row>) = report.rows.iter().partition(|row| row.published.is_some());
    let title = "Beside what was published";
    table(page, title, &beside, &command, true);
    table(page, "Further figures", &alone, &command, false);
    parameters(page, &report.parameters);
}

/// Returns the number of published figures, and of those reproduced, in words.
fn verdict(rows: &[Row]) -> String {
    let published = || rows.iter().filter(|row| row.published.is_some());
    let said = |what: &str| published().filter(|row| note_has(row, what)).count();
    if published().next().is_none() {
        return "<p class=\"dim\">Nothing was published to compare with.</p>\n".into();
    }
    let of = |kind| published().filter(|row| row.kind == kind).count();
    format!(
        "<p>{} figures were published: {} fitted, {} predicted, {} measured; {} marked as not reproduced.</p>\n",
        published().count(),
        of(RowKind::Fitted),
        of(RowKind::Predicted),
        of(RowKind::Measured),
        said("not reproduced")
    )
}

fn note_has(row: &Row, what: &str) -> bool {
    row.note.as_ref().is_some_and(|note| note.contains(what))
}

fn table(page: &mut String, title: &str, rows: &[&Row], command: &str, beside: bool) {
    if rows.is_empty() {
        return;
    }
    let heads = if beside {
        "<th scope=\"col\" class=\"n\">published</th><th scope=\"col\" class=\"n\">residual</th>"
    } else {
        ""
    };
    let lines: String = rows.iter().map(|row| line(row, beside)).collect();
    let table = format!(
        "<div class=\"wide rows\"><table><tr><th scope=\"col\">of</th><th scope=\"col\">figure</th><th scope=\"col\" class=\"n\">ours</th>{heads}<th scope=\"col\">unit</th>\
         <th scope=\"col\">kind</th><th scope=\"col\">note</th></tr>{lines}</table></div><figcaption>{title}. Command: <code>{command}</code></figcaption>"
    );
    // Long tables without comparison open on demand.
    let _ = if beside {
        writeln!(page, "<figure>{table}</figure>")
    } else {
        writeln!(
            page,
            "<details><summary>{title}: {}</summary><figure>{table}</figure></details>",
            rows.len()
        )
    };
}

fn line(row: &Row, beside: bool) -> String {
    let published = row.published.map_or(String::new(), |published| {
        let residual = match published {
            _ if row.in_points => format!("{:+.1} points", row.value - published),
            // If 0 was published, the difference itself.
            0.0 => format!("{:+.4}", row.value),
            _ => format!("{:+.1} %", (row.value / published - 1.0) * 100.0),
        };
        format!("<td class=\"n\" data-is=\"published\">{published}</td><td class=\"n\" data-is=\"residual\">{residual}</td>")
    });
    let kind = match row.kind {
        RowKind::Fitted => "fitted",
        RowKind::Predicted => "predicted",
        RowKind::Measured => "measured",
    };
    let bad = if note_has(row, "not reproduced") { " bad" } else { "" };
    format!(
        "<tr><td class=\"l\">{}</td><td class=\"l\">{}</td><td class=\"n\" data-is=\"ours\">{}</td>{}<td class=\"l\">{}</td><td>{kind}</td>\
         <td class=\"t{bad}\">{}</td></tr>\n",
        escaped(&row.of()),
        row.metric,
        number(row.value),
        if beside { published } else { String::new() },
        escaped(row.unit),
        escaped(row.note.as_deref().unwrap_or(""))
    )
}

fn number(value: f64) -> String {
    match value.abs() {
        1000.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

fn parameters(page: &mut String, parameters: &Parameters) {
    let line = |(key, parameter): (&str, &crate::experiment::Parameter)| {
        format!(
            "<tr><td class=\"l\">{key}</td><td class=\"n\" data-is=\"value\">{}</td><td>{}</td><td class=\"t\">{}</td></tr>\n",
            parameter.value,
            parameter.kind.name(),
            escaped(&parameter.source)
        )
    };
    let lines: String = parameters.iter().map(line).collect();
    let _ = writeln!(
        page,
        "<details><summary>Parameters: {}</summary><div class=\"wide rows\"><table><tr><th scope=\"col\">parameter</th><th scope=\"col\" class=\"n\">value</th>\
         <th scope=\"col\">kind</th><th scope=\"col\">source</th></tr>{lines}</table></div></details>",
        parameters.iter().count()
    );
}
