//! `Metric`: one walk over the counters and gauges of pools, queues, senders, receivers and pollers.
//!
//! Assumptions: each value is an atomic that one thread writes; any thread walks at any time. The walk never becomes the
//! owner of a queue, and takes only locks that no sender takes on its way. Values are therefore of slightly different
//! moments: a difference of two of them is exact once the path is at rest.
//!
//! A `table!` names each counter once, with its unit: the field, its documentation, its help text and its place in the
//! walk all come from there. Gauges that are differences of counters (frames in a device: those that it took, less those
//! completed) cost the path nothing.

use std::fmt::Debug;

/// The way in which a value changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows while its object lives.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// One value of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric<'a> {
    /// Name: lower case, with the prefix `wharf_` and the part that it belongs to. Unique in a walk together with its labels.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Unit of the value: `packets`, `bytes`, `ns`, or the thing counted.
    pub unit: &'static str,
    /// The way in which it changes.
    pub kind: MetricKind,
    /// Names and values of its labels, such as `("queue", "xdp:eth0#3")`.
    pub labels: &'a [(&'static str, &'a str)],
    /// The value.
    pub value: u64,
}

/// A thing that has metrics.
pub trait Measured: Send + Sync + Debug {
    /// Shows its metrics.
    fn measure(&self, walk: &mut Walk<'_>);
}

/// A row of a table: a metric without labels and value.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) kind: MetricKind,
}

impl Row {
    pub(crate) const fn gauge(name: &'static str, unit: &'static str, help: &'static str) -> Self {
        Self { name, help, unit, kind: MetricKind::Gauge }
    }

    pub(crate) const fn counter(name: &'static str, unit: &'static str, help: &'static str) -> Self {
        Self { name, help, unit, kind: MetricKind::Counter }
    }
}

/// A walk, with the labels of the part that it has come to.
pub struct Walk<'a> {
    see: &'a mut (dyn FnMut(&Metric<'_>) + 'a),
    labels: Vec<(&'static str, &'a str)>,
}

impl Debug for Walk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Walk({:?})", self.labels)
    }
}

impl<'a> Walk<'a> {
    /// Begins a walk that shows each metric to `see`.
    pub fn new(see: &'a mut (dyn FnMut(&Metric<'_>) + 'a)) -> Self {
        Self { see, labels: Vec::new() }
    }

    /// Goes on below, where all metrics have one more label.
    pub fn with<'b>(&'b mut self, label: &'static str, value: &'b str) -> Walk<'b> {
        let labels = self.labels.iter().copied().chain([(label, value)]).collect();
        Walk { see: &mut *self.see, labels }
    }

    pub(crate) fn show(&mut self, row: Row, value: u64) {
        let Row { name, help, unit, kind } = row;
        (self.see)(&Metric { name, help, unit, kind, labels: &self.labels, value });
    }

    /// Shows a value for each reason.
    pub(crate) fn by_reason(&mut self, row: Row, reasons: &[(&'static str, u64)]) {
        reasons.iter().for_each(|&(reason, count)| self.with("reason", reason).show(row, count));
    }
}

/// Makes a struct of [`Counter`](crate::counters::Counter)s and the walk over them from one table: documentation, field,
/// kind and unit. Fields behind `beside` are no metrics.
macro_rules! table {
    (
        $(#[$about:meta])*
        pub struct $Name:ident, $prefix:literal {
            $($(#[doc = $help:literal])+ $field:ident: $kind:ident $unit:literal,)+
        }
        $(beside { $($(#[$beside_about:meta])* $beside_vis:vis $beside:ident: $Beside:ty,)+ })?
    ) => {
        $(#[$about])*
        #[derive(Debug, Default)]
        pub struct $Name {
            $($(#[doc = $help])+ pub $field: $crate::counters::counter::Counter,)+
            $($($(#[$beside_about])* $beside_vis $beside: $Beside,)+)?
        }

        impl $Name {
            /// Shows all counters and gauges of the table.
            pub(crate) fn each(&self, walk: &mut $crate::metrics::Walk<'_>) {
                $(walk.show(
                    $crate::metrics::Row {
                        name: concat!($prefix, stringify!($field)),
                        help: concat!($($help),+).trim_ascii_start(),
                        unit: $unit,
                        kind: $crate::metrics::MetricKind::$kind,
                    },
                    self.$field.get(),
                );)+
            }

            /// Adds the counters of another one; for the writer of this one. Gauges stay.
            #[allow(dead_code)]
            pub(crate) fn add(&self, other: &Self) {
                $(if $crate::metrics::MetricKind::$kind == $crate::metrics::MetricKind::Counter {
                    self.$field.add(other.$field.get());
                })+
            }
        }
    };
}

pub(crate) use table;
