//! Asks the kernel and us the same, and compares the answers.

use crate::rig::Rig;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use wharf_net::{Hop, NoHop, Query, RouteKind, Tables};

/// A question in the words of `ip route get`.
#[derive(Clone, Debug)]
pub struct Question {
    pub to: IpAddr,
    pub from: Option<IpAddr>,
    pub mark: u32,
    pub output: Option<&'static str>,
    pub input: Option<&'static str>,
    pub port: u16,
    pub tos: u8,
}

impl Question {
    fn line(&self) -> String {
        let mut line = format!("route get {}", self.to);
        let mut add = |word: &str, value: String| line += &format!(" {word} {value}");
        if let Some(from) = self.from {
            add("from", from.to_string());
        }
        if let Some(input) = self.input {
            add("iif", input.into());
        }
        if self.tos != 0 {
            add("tos", format!("{:#x}", self.tos));
        }
        if let Some(output) = self.output {
            add("oif", output.into());
        }
        if self.mark != 0 {
            add("mark", self.mark.to_string());
        }
        if self.port != 0 {
            add("ipproto", "17".into());
            add("sport", "4000".into());
            add("dport", self.port.to_string());
        }
        line
    }

    fn query(&self, tables: &Tables) -> Query {
        let index = |name| tables.interface_index(name).unwrap_or(u32::MAX);
        let mut query = Query::to(self.to).mark(self.mark).tos(self.tos);
        query = self.from.map_or(query, |from| query.from(from));
        query = self.output.map_or(query, |name| query.output(index(name)));
        query = self.input.map_or(query, |name| query.input(index(name)));
        if self.port == 0 { query } else { query.ports(17, 4000, self.port) }
    }
}

/// What both can say of a way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Way {
    kind: String,
    interface: String,
    gateway: Option<IpAddr>,
    source: Option<IpAddr>,
    mtu_bytes: u64,
    mac: Option<String>,
}

pub type Answer = Result<Way, &'static str>;

/// What `ip` lists beside the routes.
struct Facts {
    mtus: HashMap<String, u64>,
    macs: HashMap<(String, IpAddr), String>,
}

impl Facts {
    fn read(rig: &Rig) -> Self {
        let list = |what: &str| -> Vec<Value> {
            serde_json::from_str(&rig.sh(&format!("ip -n $A -j {what}"))).expect("JSON")
        };
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let mtus =
            list("link").iter().map(|it| (text(it, "ifname"), it["mtu"].as_u64().unwrap_or(0))).collect();
        let known =
            list("neigh").into_iter().filter(|it| it["lladdr"].is_string() && it["state"][0] != "FAILED");
        let macs = known
            .map(|it| ((text(&it, "dev"), address(&it["dst"]).expect("an address")), text(&it, "lladdr")));
        Self { mtus, macs: macs.collect() }
    }

    fn way(&self, question: &Question, value: &Value) -> Way {
        let (interface, metrics) =
            (value["dev"].as_str().unwrap_or_default().to_owned(), &value["metrics"][0]);
        let gateway = address(&value["gateway"]).or_else(|| address(&value["via"]["host"]));
        let kind = value["type"].as_str().unwrap_or("unicast").to_owned();
        let to = gateway.unwrap_or(question.to);
        let mac = self.macs.get(&(interface.clone(), to)).cloned();
        let mtu = metrics["mtu"].as_u64().unwrap_or(self.mtus[&interface]).min(65535);
        let source = address(&value["prefsrc"]).filter(|_| has_source(question, &interface));
        Way { mac: mac.filter(|_| kind == "unicast"), kind, interface, gateway, source, mtu_bytes: mtu }
    }
}

fn address(value: &Value) -> Option<IpAddr> {
    value.as_str()?.parse().ok()
}

/// True if the answers' source is one to compare. Of a way of IPv6 out of the VRF `red`, `ip route get` does
/// not show the one that a socket has (`rt6_fill_node`).
fn has_source(question: &Question, interface: &str) -> bool {
    let leads_out = question.output == Some("red") && interface == "a1" && question.to.is_ipv6();
    question.from.is_none() && !leads_out
}

/// Returns the kernel's answers.
pub fn kernels(rig: &Rig, questions: &[Question]) -> Vec<Answer> {
    let facts = Facts::read(rig);
    let lines: String = questions.iter().map(|question| question.line() + "\n").collect();
    let (found, refused) = rig.batch(&lines);
    let (mut errors, mut said) = (HashMap::new(), "");
    for line in refused.lines() {
        match line.strip_prefix("Command failed -:") {
            Some(number) => drop(errors.insert(number.parse::<usize>().expect("a number") - 1, said)),
            None => said = line,
        }
    }
    let mut found = found.lines().filter(|line| !line.is_empty());
    let answer = |(at, question): (usize, &Question)| match errors.get(&at) {
        Some(error) => Err(error_of(error)),
        None => {
            let found: Value = serde_json::from_str(found.next().expect("an answer")).expect("JSON");
            Ok(facts.way(question, &found[0]))
        }
    };
    questions.iter().enumerate().map(answer).collect()
}

fn error_of(said: &str) -> &'static str {
    let known = [
        ("Network is unreachable", "no route"),
        ("No route to host", "unreachable"),
        ("Permission denied", "prohibited"),
        ("Invalid argument", "blackhole"),
        ("Resource temporarily unavailable", "throw"),
    ];
    known
        .iter()
        .find(|(text, _)| said.contains(text))
        .map_or_else(|| panic!("ip says {said}"), |(_, word)| word)
}

/// Returns our answer.
pub fn ours(tables: &Tables, question: &Question) -> Answer {
    match tables.lookup(&question.query(tables)) {
        Ok(hop) => Ok(way_of(tables, question, &hop)),
        Err(NoHop::NoRoute) => Err("no route"),
        Err(NoHop::Unreachable) => Err("unreachable"),
        Err(NoHop::Prohibited) => Err("prohibited"),
        Err(NoHop::Blackhole) => Err("blackhole"),
        Err(other) => panic!("{question:?}: {other}"),
    }
}

fn way_of(tables: &Tables, question: &Question, hop: &Hop) -> Way {
    let kind = match hop.kind {
        RouteKind::Unicast => "unicast",
        RouteKind::Local => "local",
        RouteKind::Broadcast => "broadcast",
        RouteKind::Anycast => "anycast",
        RouteKind::Multicast => "multicast",
        _ => "another",
    };
    let mac = hop.neighbour.mac().filter(|mac| kind == "unicast" && *mac != [0; 6]);
    let text = |mac: [u8; 6]| mac.map(|byte| format!("{byte:02x}")).join(":");
    let interface = tables.interface_name(hop.interface).unwrap_or_default();
    Way {
        kind: kind.into(),
        gateway: hop.gateway,
        source: hop.source.filter(|_| has_source(question, &interface)),
        interface,
        mtu_bytes: u64::from(hop.mtu_bytes),
        mac: mac.map(text),
    }
}

/// Compares all answers. Ways that a multipath route may give (`paths`: interface, gateway) need not be the
/// same for one destination, but each must have its share of them all.
pub fn compare(tables: &Tables, rig: &Rig, questions: &[Question], paths: &[(&str, &str)]) {
    let mut shares: HashMap<(String, Option<IpAddr>), [u32; 2]> = HashMap::new();
    let mut counted = HashSet::new();
    let (mut wrong, mut kinds) = (Vec::new(), HashMap::<String, u32>::new());
    let is_path = |answer: &Answer| {
        answer.as_ref().is_ok_and(|way| {
            let of_kind = |gateway: &str| !gateway.is_empty() || way.kind != "unicast";
            let is = |dev: &str, gateway: &str| way.interface == dev && way.gateway == gateway.parse().ok();
            paths.iter().any(|(dev, gateway)| of_kind(gateway) && is(dev, gateway))
        })
    };
    for (question, theirs) in questions.iter().zip(kernels(rig, questions)) {
        let ours = ours(tables, question);
        *kinds
            .entry(theirs.as_ref().map_or_else(|error| (*error).to_owned(), |way| way.kind.clone()))
            .or_default() += 1;
        // Bound to an interface, IPv4 does not choose by a hash.
        let may_differ = question.output.is_none() || question.to.is_ipv6();
        let is_path = |answer: &Answer| may_differ && is_path(answer);
        if let (true, true, Ok(our), Ok(their)) = (is_path(&ours), is_path(&theirs), &ours, &theirs) {
            let is_new = counted.insert(question.to);
            for (at, way) in [our, their].into_iter().enumerate().filter(|_| is_new) {
                shares.entry((way.interface.clone(), way.gateway)).or_default()[at] += 1;
            }
            let rest = |way: &Way| (way.kind.clone(), way.mtu_bytes);
            if rest(our) == rest(their)
                && (our == their || our.gateway != their.gateway || our.interface != their.interface)
            {
                continue;
            }
        }
        if ours != theirs {
            wrong.push(format!("{}\n  kernel {theirs:?}\n  ours   {ours:?}", question.line()));
        }
    }
    let total: u32 = shares.values().map(|[our, _]| our).sum();
    let uneven = shares.iter().filter(|(_, [our, their])| our.abs_diff(*their) * 20 > total);
    wrong.extend(
        uneven.map(|(path, shares)| format!("shares of {path:?}: ours, kernel's {shares:?} of {total}")),
    );
    eprintln!(
        "{}: {} questions, {kinds:?}, shares {shares:?}, {} differ",
        rig.name,
        questions.len(),
        wrong.len()
    );
    assert!(
        wrong.is_empty(),
        "{}: {} differ:\n{}",
        rig.name,
        wrong.len(),
        wrong[..wrong.len().min(12)].join("\n")
    );
}
