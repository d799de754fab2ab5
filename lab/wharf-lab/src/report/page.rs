//! The page: the score, then a section for each experiment.

use super::score::Verdict;
use super::{Machine, Score, Section, Shown};
use crate::experiment::published::Source;
use crate::experiment::{Effect, Parameters, Report, Row, RowKind};
use std::fmt::Write as _;
use wharf_page::{document, escaped, facts, figure};

const LEGEND: &str = "\
<p class=\"dim\">Each published figure stands beside ours. <b>Fitted</b>: a parameter was chosen so that it comes out. \
<b>Within 25 %</b> (differences in percent: within 10 points) and <b>farther off</b>: it follows from parameters chosen for \
other figures, or set for this run, or was measured. <b>Not reproduced</b>: off by more than a factor of two, or with the \
other sign; the note says why. Where the source has a figure without the mechanism, too, the verdict is on the <b>effect</b>, the \
change between the two, and not on the level. The residual is ours less the published one, in percent of that; of differences, in points; \
where 0 was published, in the unit of the row. In world model the same command gives the same figures, to the byte, on any \
machine.</p>\n";

/// Returns the whole page.
pub(super) fn page(sections: &[Shown<'_>], machine: &Machine) -> String {
    let names: Vec<&str> = sections.iter().map(|one| one.section.report.experiment).collect();
    let title = match names[..] {
        [name] => format!("wharf lab: {name}"),
        _ => format!("wharf lab: {} experiments beside what was published", names.len()),
    };
    let mut body = scorecard(sections);
    let named = machine.facts.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for one in sections {
        section_of(&mut body, one);
    }
    let _ = writeln!(body, "<h2>This run</h2>\n{}", facts(named));
    document(&title, &body)
}

/// Returns the verdict in a sentence, the counts, and those of each experiment.
fn scorecard(sections: &[Shown<'_>]) -> String {
    let score: Score = sections.iter().map(|one| Score::of(&one.section.report.rows)).sum();
    let own = sections.iter().find_map(|one| own_figures(&one.section.report.rows));
    let verdict = own.filter(|_| score.published() == 0).unwrap_or_else(|| verdict(&score));
    let mut text = format!("<p class=\"answer\">{}</p>\n", escaped(&verdict));
    let legend = if score.published() > 0 { LEGEND } else { "" };
    if score.published() > 0 {
        let part = |(count, what, class): (usize, &str, &str)| {
            format!(
                "<li><b>{count}</b>{what} <span class=\"bar\"><i class=\"{class}\" style=\"width:100%\"></i></span></li>"
            )
        };
        let parts: String = score.parts().into_iter().map(part).collect();
        let _ = writeln!(
            text,
            "<ul class=\"strip\"><li><b>{}</b>published figures</li>{parts}</ul>",
            score.published()
        );
    }
    if sections.len() < 2 {
        return text + legend;
    }
    let lines: String = sections.iter().map(|one| score_line(one.section)).collect();
    let heads = ["published", "fitted", "within 25 %", "farther off", "not reproduced"];
    let heads: String = heads.map(|head| format!("<th scope=\"col\" class=\"n\">{head}</th>")).concat();
    let _ = writeln!(
        text,
        "<div class=\"wide rows\"><table><tr><th scope=\"col\">experiment</th>{heads}<th scope=\"col\">share</th>\
         <th scope=\"col\">what it shows</th></tr>{lines}</table></div>"
    );
    text + legend
}

/// Returns the median delay without the byte queue limit and with it, at the rate where they differ most; none of other experiments.
fn own_figures(rows: &[Row]) -> Option<String> {
    let delays = || rows.iter().filter(|row| row.metric == "delay_p50");
    let pair = |with: &Row| {
        let phase = with.label.strip_prefix("bql=on/")?.to_string();
        let without = delays().find(|row| row.label.strip_prefix("bql=off/") == Some(&phase))?;
        Some((phase, without.value, with.value, with.unit))
    };
    let gain = |(_, without, with, _): &(String, f64, f64, &str)| without / with.max(f64::MIN_POSITIVE);
    let most = delays().filter_map(pair).max_by(|a, b| gain(a).total_cmp(&gain(b)))?;
    let (phase, without, with, unit) = most;
    let rate = phase.split_once(':').map_or(&*phase, |(_, rate)| rate);
    let rate = rate.replace("mbit", " Mbit/s").replace("gbit", " Gbit/s");
    Some(format!(
        "At {rate} a packet waits {without:.1} {unit} (median) without the byte queue limit, and {with:.1} {unit} with it."
    ))
}

/// Returns the score in a sentence.
fn verdict(score: &Score) -> String {
    if score.published() == 0 {
        return "Nothing was published to compare with.".into();
    }
    let come_out = score.fitted + score.near;
    let rest = match (score.far, score.not_reproduced) {
        (0, 0) => "all others, too.".to_string(),
        (far, not) => format!("{far} are farther off, and {not} are not reproduced."),
    };
    let rest = if come_out == score.published() { "none is farther off.".into() } else { rest };
    format!(
        "{come_out} of {} published figures come out: {} because a parameter was fitted to them, {} predicted within \
         25 %; {rest}",
        score.published(),
        score.fitted,
        score.near
    )
}

fn score_line(section: &Section) -> String {
    let score = Score::of(&section.report.rows);
    let all = score.published();
    let part = |(count, what, class): (usize, &str, &str)| {
        format!(
            "<i class=\"{class}\" style=\"width:{}%\" title=\"{count} {what}\"></i>",
            count * 100 / all.max(1)
        )
    };
    let bar: String = score.parts().into_iter().filter(|part| part.0 > 0).map(part).collect();
    let cell = |(what, count): (&str, usize)| {
        let count = if all == 0 { "-".into() } else { count.to_string() };
        format!("<td class=\"n\" data-is=\"{what}\">{count}</td>")
    };
    let counts: String = [("published", all)]
        .into_iter()
        .chain(score.parts().map(|(n, what, _)| (what, n)))
        .map(cell)
        .collect();
    format!(
        "<tr class=\"score\"><td><a href=\"#{}\">{}</a></td>{counts}<td><span class=\"bar\">{bar}</span></td><td class=\"t\">{}</td></tr>\n",
        id_of(section),
        section.report.experiment,
        escaped(section.what)
    )
}

fn id_of(section: &Section) -> String {
    format!("{}-{}", section.report.experiment, section.report.world)
}

fn section_of(page: &mut String, Shown { section, pictures }: &Shown<'_>) {
    let (report, command) = (&section.report, escaped(&section.command));
    let _ = writeln!(page, "<h2 id=\"{}\">{}</h2>", id_of(section), report.experiment);
    let ended =
        if report.interrupted { " <b class=\"bad\">Ended early: there are fewer figures.</b>" } else { "" };
    let _ = write!(
        page,
        "<p>{}. World {}, seed {}{}.{ended}</p>\n{}<p>{}. {}.{}</p>\n",
        escaped(&capital(section.what)),
        report.world,
        report.seed,
        if report.seeds > 1 { format!(", medians of {} seeds", report.seeds) } else { String::new() },
        skill(report),
        escaped(&capital(&Score::of(&report.rows).words())),
        capital(&report.judgement.parameters()),
        published_in(&report.sources)
    );
    page.push_str("<div class=\"pictures\">");
    let again = format!("{} --report DIR", section.command);
    for picture in pictures {
        page.push_str(&figure(&picture.svg, &picture.caption, Some(&picture.file), Some(&again)));
    }
    page.push_str("</div>\n");
    let (beside, alone): (Vec<&Row>, Vec<&Row>) = report.rows.iter().partition(|row| row.published.is_some());
    table(page, "Beside what was published", &beside, &command, Some(&report.sources));
    table(page, "Further figures", &alone, &command, None);
    parameters(page, &report.parameters);
}

/// Returns the skill against "nothing changes"; bad news stand out.
fn skill(report: &Report) -> String {
    let words = capital(&report.judgement.words());
    let class = if report.judgement.skill.is_some_and(|skill| skill > 0.0) { "dim" } else { "bad" };
    if words.is_empty() { words } else { format!("<p class=\"{class}\">{}.</p>\n", escaped(&words)) }
}

/// Returns `text` with a capital at its beginning.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Returns the sources, each with its address.
fn published_in(sources: &[Source]) -> String {
    if sources.is_empty() {
        return String::new();
    }
    let source = |source: &Source| match &source.url {
        Some(url) => format!("<a href=\"{}\">{}</a>", escaped(url), escaped(&source.name)),
        None => escaped(&source.name),
    };
    format!(" Published in: {}.", sources.iter().map(source).collect::<Vec<_>>().join("; "))
}

fn table(page: &mut String, title: &str, rows: &[&Row], command: &str, sources: Option<&[Source]>) {
    if rows.is_empty() {
        return;
    }
    let heads = match sources {
        Some(_) => {
            "<th scope=\"col\" class=\"n\">published</th><th scope=\"col\" class=\"n\">residual</th>\
             <th scope=\"col\" class=\"n\">effect</th>"
        }
        None => "",
    };
    let lines: String = rows.iter().map(|row| line(row, sources)).collect();
    let table = format!(
        "<div class=\"wide rows\"><table><tr><th scope=\"col\">of</th><th scope=\"col\">figure</th><th scope=\"col\" class=\"n\">ours</th>{heads}<th scope=\"col\">unit</th>\
         <th scope=\"col\">kind</th><th scope=\"col\">note</th></tr>{lines}</table></div><figcaption>{title}.<br><code>{command}</code></figcaption>"
    );
    // Long tables without comparison open on demand.
    let _ = match sources {
        Some(_) => writeln!(page, "<figure>{table}</figure>"),
        None => writeln!(
            page,
            "<details><summary>{title}: {}</summary><figure>{table}</figure></details>",
            rows.len()
        ),
    };
}

fn line(row: &Row, sources: Option<&[Source]>) -> String {
    let kind = match row.kind {
        RowKind::Fitted => "fitted",
        RowKind::Predicted => "predicted",
        RowKind::Measured => "measured",
    };
    let bad = if Verdict::of(row) == Some(Verdict::NotReproduced) { " bad" } else { "" };
    format!(
        "<tr><td class=\"l\">{}</td><td class=\"l\">{}</td><td class=\"n\" data-is=\"ours\">{}</td>{}<td>{}</td><td>{kind}</td>\
         <td class=\"t{bad}\">{}</td></tr>\n",
        escaped(&row.of()),
        row.metric,
        number(row.value),
        sources.map(|sources| published(row, sources)).unwrap_or_default(),
        escaped(row.unit),
        escaped(row.note.as_deref().unwrap_or(""))
    )
}

/// Returns the cells of the published figure, with a link to its source, and of the residual.
fn published(row: &Row, sources: &[Source]) -> String {
    let Some(published) = row.published else { return String::new() };
    let residual = match published {
        _ if row.in_points => format!("{:+.1} points", row.value - published),
        // If 0 was published, the difference itself.
        0.0 => format!("{:+.4}", row.value),
        _ => format!("{:+.1} %", (row.value / published - 1.0) * 100.0),
    };
    let url = Source::of(sources, &row.label).and_then(|source| source.url.as_deref());
    let figure = match url {
        Some(url) => format!("<a href=\"{}\">{published}</a>", escaped(url)),
        None => published.to_string(),
    };
    format!(
        "<td class=\"n\" data-is=\"published\">{figure}</td><td class=\"n\" data-is=\"residual\">{residual}</td>\
         <td class=\"n\" data-is=\"effect\">{}</td>",
        effect(row)
    )
}

/// Returns our effect and the published one, in words.
fn effect(row: &Row) -> String {
    row.effect.map_or(String::new(), |Effect { published, value, error, .. }| {
        format!("{value:+.1} for {published:+.1}: {error:+.1} points")
    })
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
