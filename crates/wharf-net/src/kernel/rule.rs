//! Policy rules (`ip rule`).

use super::{IPV4, IPV6};
use crate::wire::{address, attribute, attributes, number, text, u16_at, u32_at};
use std::net::IpAddr;
use std::ops::RangeInclusive;

const INVERT: u32 = 2;
/// The bits of the type of service that are DSCP's.
const DSCP: u8 = 0xfc;
/// Those that IPv4 regards in a rule or a route for a type of service (`fib_dscp_masked_match`).
pub(crate) const DSCP_IN_TOS_V4: u8 = 0x1c;

/// Numbers of tables.
pub(crate) const LOCAL: u32 = 255;
pub(crate) const MAIN: u32 = 254;

/// What a rule that matches does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Table,
    /// On with the rule of this priority.
    Goto(u32),
    Nothing,
    Blackhole,
    Unreachable,
    Prohibit,
}

/// A rule. What is `None`, or of no length, matches everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) priority: u32,
    pub(crate) action: Action,
    pub(crate) table: u32,
    pub(crate) is_inverted: bool,
    pub(crate) from: Option<(IpAddr, u8)>,
    pub(crate) to: Option<(IpAddr, u8)>,
    pub(crate) input: Option<Box<str>>,
    pub(crate) output: Option<Box<str>>,
    pub(crate) mark: u32,
    pub(crate) mark_mask: u32,
    /// What the packet's type of service must be in the bits of the mask.
    pub(crate) tos: u8,
    pub(crate) tos_mask: u8,
    pub(crate) users: Option<RangeInclusive<u32>>,
    pub(crate) protocol: u8,
    pub(crate) source_ports: Option<Ports>,
    pub(crate) ports: Option<Ports>,
    /// It has a selector that is not read here.
    pub(crate) is_unknown: bool,
    /// The table is that of the packet's VRF.
    pub(crate) is_of_vrf: bool,
    /// It matches every packet, and looks into a table.
    pub(crate) is_plain: bool,
    /// A found prefix of at most so many bits is passed over.
    pub(crate) suppress_len: Option<u8>,
    /// A found route through an interface of this group is passed over.
    pub(crate) suppress_group: Option<u32>,
}

/// Ports: a range, or those that agree with its start in the bits of a mask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ports {
    range: RangeInclusive<u16>,
    mask: Option<u16>,
}

impl Ports {
    pub(crate) fn contains(&self, port: u16) -> bool {
        match self.mask {
            Some(mask) => (port ^ self.range.start()) & mask == 0,
            None => self.range.contains(&port),
        }
    }
}

impl Rule {
    fn new(priority: u32, table: u32) -> Self {
        Self {
            priority,
            action: Action::Table,
            table,
            is_inverted: false,
            from: None,
            to: None,
            input: None,
            output: None,
            mark: 0,
            mark_mask: 0,
            tos: 0,
            tos_mask: 0,
            users: None,
            protocol: 0,
            source_ports: None,
            ports: None,
            is_unknown: false,
            is_of_vrf: false,
            is_plain: true,
            suppress_len: None,
            suppress_group: None,
        }
    }
}

/// The rules of a kernel that has none (`CONFIG_IP_MULTIPLE_TABLES`): the tables `local` and `main`.
pub(crate) fn default_rules() -> Vec<Rule> {
    vec![Rule::new(0, LOCAL), Rule::new(32766, MAIN)]
}

/// Reads a rule: true for IPv6, and it.
pub(crate) fn rule_of(body: &[u8]) -> Option<(bool, Rule)> {
    let fixed: &[u8; 12] = body.first_chunk()?;
    let v6 = match fixed[0] {
        IPV4 => false,
        IPV6 => true,
        _ => return None,
    };
    let mut rule = Rule::new(0, u32::from(fixed[4]));
    if fixed[3] != 0 {
        (rule.tos, rule.tos_mask) = (fixed[3], if v6 { DSCP } else { DSCP_IN_TOS_V4 });
    }
    rule.is_inverted = u32_at(body, 8)? & INVERT != 0;
    let (mut target, mut mask) = (0, None);
    for (kind, payload) in attributes(&body[12..]) {
        match kind {
            1 => rule.to = address(payload).map(|to| (to, fixed[1])),
            2 => rule.from = address(payload).map(|from| (from, fixed[2])),
            3 => rule.input = Some(text(payload)),
            4 => target = number(payload),
            6 => rule.priority = number(payload),
            10 => rule.mark = number(payload),
            16 => mask = Some(number(payload)),
            17 => rule.output = Some(text(payload)),
            _ => read_rest(&mut rule, kind, payload, &body[12..]),
        }
    }
    rule.mark_mask = mask.unwrap_or(if rule.mark == 0 { 0 } else { u32::MAX });
    rule.action = match fixed[7] {
        1 => Action::Table,
        2 => Action::Goto(target),
        3 => Action::Nothing,
        6 => Action::Blackhole,
        7 => Action::Unreachable,
        8 => Action::Prohibit,
        _ => return None,
    };
    rule.is_plain = rule == Rule::new(rule.priority, rule.table);
    Some((v6, rule))
}

/// Takes an attribute that few rules have, of `all`. `u32::MAX` stands for "not suppressed".
fn read_rest(rule: &mut Rule, kind: u16, payload: &[u8], all: &[u8]) {
    match kind {
        13 => rule.suppress_group = Some(number(payload)).filter(|group| *group != u32::MAX),
        14 => rule.suppress_len = u8::try_from(number(payload)).ok(),
        15 => rule.table = number(payload),
        19 => rule.is_of_vrf = payload.first() == Some(&1),
        20 => rule.users = Some(number(payload)..=u32_at(payload, 4).unwrap_or(u32::MAX)),
        22 => rule.protocol = payload.first().copied().unwrap_or(0),
        23 => rule.source_ports = ports(payload, attribute(all, 28)),
        24 => rule.ports = ports(payload, attribute(all, 29)),
        // DSCP has six bits here.
        25 => {
            let mask = attribute(all, 30).map_or(DSCP, |mask| byte(mask) << 2);
            (rule.tos, rule.tos_mask) = (byte(payload) << 2, mask);
        }
        // Realms, padding, who made it, and the masks.
        11 | 18 | 21 | 28..=30 => {}
        _ => rule.is_unknown = true,
    }
}

fn ports(payload: &[u8], mask: Option<&[u8]>) -> Option<Ports> {
    let mask = mask.and_then(|mask| u16_at(mask, 0));
    Some(Ports { range: u16_at(payload, 0)?..=u16_at(payload, 2)?, mask })
}

fn byte(payload: &[u8]) -> u8 {
    payload.first().copied().unwrap_or(0)
}
