//! A plan as a page that opens without a network: the answer, the picture, and the figures behind them.

use super::{FeatureOutcome, Outcome, Part, Plan, Question, mpps};
use wharf_page::{document, escaped, figure};

/// Returns the page of a plan with its picture inside. `interface` is the one that commands are shown for,
/// `command` the command line, and `text` the plan as it was printed.
pub fn page(
    plan: &Plan, question: &Question, svg: &str, (interface, command, text): (&str, &str, &str),
) -> String {
    let direction = question.direction;
    let title = format!("{} on {}", plan.nic.name, plan.link);
    let caption = "The rate that comes out for each size of frame, as the NIC is set and with all compatible features \
                   switched on. Dashed: the limits that are near.";
    let (idle, commands) = (plan.without_effect(direction), plan.improvements(direction, interface));
    let mut body = format!("<p class=\"answer\">{}</p>\n", escaped(&plan.answer.words));
    body += &commands_of(plan, &commands);
    body += "<div class=\"pictures\">";
    body += &figure(svg, caption, Some("plan.svg"), Some(command));
    body += &limits(plan);
    body += "</div>\n";
    body += &features(plan, question);
    if !idle.is_empty() {
        body += &format!(
            "<details><summary>No effect here: {}</summary><p>{}</p></details>\n",
            idle.len(),
            escaped(&idle.join(", "))
        );
    }
    body += &format!("<details><summary>As printed</summary><pre>{}</pre></details>\n", escaped(text));
    document(&title, &body)
}

/// Returns the commands that raise the rate, a line each.
fn commands_of(plan: &Plan, commands: &[String]) -> String {
    if commands.is_empty() {
        return String::new();
    }
    let driver = plan.nic.drivers.join(", ");
    let lines = escaped(&commands.join("\n"));
    format!("<p>Commands that raise it (driver {}):</p><pre class=\"wrap\">{lines}</pre>\n", escaped(&driver))
}

/// Returns a row of a table: its name, and figures.
fn row(name: &str, cells: impl Iterator<Item = String>) -> String {
    let heads = ["tx", "rx", "both at once"];
    // Words are wrapped, figures are not.
    let class = |cell: &str| if cell.contains(' ') { "n w" } else { "n" };
    let cell = |(head, cell): (&str, String)| {
        format!("<td class=\"{}\" data-is=\"{head}\">{}</td>", class(&cell), escaped(&cell))
    };
    let cells: String = heads.into_iter().zip(cells).map(cell).collect();
    format!("<tr><td class=\"l\">{}</td>{cells}</tr>\n", escaped(name))
}

/// Returns the rate that each part allows.
fn limits(plan: &Plan) -> String {
    let mut rows = row("Mpps", plan.outcomes.iter().map(|outcome| mpps(outcome.pps)));
    rows += &row("stopped by", plan.outcomes.iter().map(|outcome| outcome.binding.words().into()));
    for part in Part::ALL {
        let limit = |outcome: &Outcome| outcome.limit(part).map_or("-".into(), mpps);
        rows += &row(&format!("{} allows", part.words()), plan.outcomes.iter().map(limit));
    }
    let head = |name: &str| format!("<th scope=\"col\" class=\"n w\">{name}</th>");
    let heads: String = ["tx", "rx", "both at once"].map(head).concat();
    format!(
        "<div class=\"wide rows\"><table><tr><th scope=\"col\">Mpps</th>{heads}</tr>{rows}</table></div>\n"
    )
}

/// Returns the effect of each feature that has one.
fn features(plan: &Plan, question: &Question) -> String {
    let (at, way) = (question.direction as usize, question.direction.name());
    let number = |what: &str, pps| format!("<td class=\"n\" data-is=\"{what}\">{}</td>", mpps(pps));
    let line = |feature: &FeatureOutcome| {
        let is = if feature.on { "on" } else { "off" };
        let (with, without) = (number("with", feature.with[at]), number("without", feature.without[at]));
        format!(
            "<tr><td class=\"l\">{}</td><td>{is}</td>{with}{without}<td class=\"t\">{}</td></tr>\n",
            escaped(&feature.name),
            escaped(&feature.what)
        )
    };
    let lines: String =
        plan.features.iter().filter(|feature| feature.has_effect(question.direction)).map(line).collect();
    let all = number("with", plan.together[at].pps);
    let together = escaped(&plan.together_on.join(", "));
    format!(
        "<div class=\"wide rows\"><table><tr><th scope=\"col\">feature</th><th scope=\"col\">is</th>\
         <th scope=\"col\" class=\"n\">{way} Mpps with</th><th scope=\"col\" class=\"n\">without</th>\
         <th scope=\"col\">what it does</th></tr>{lines}\
         <tr><td class=\"l\">all together</td><td></td>{all}<td></td><td class=\"t\">{together}</td></tr></table></div>\n"
    )
}
