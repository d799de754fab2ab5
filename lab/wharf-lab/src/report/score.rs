//! The score of an experiment: how near its figures are to the published ones.

use crate::experiment::{Row, RowKind, SMALL_POINTS};
use std::iter::Sum;

/// A figure within this share of the published one is near it.
const NEAR: f64 = 0.25;
/// A difference in percent is near the published one within so many points.
const NEAR_POINTS: f64 = 10.0;

/// The verdict on a figure beside a published one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Fitted,
    Near,
    Far,
    NotReproduced,
}

impl Verdict {
    /// Returns the verdict on a row, by its effect if one was published, else by its level; none if nothing was published for it.
    pub(super) fn of(row: &Row) -> Option<Self> {
        if let (Some(effect), false) = (row.effect, row.kind == RowKind::Fitted) {
            let near = (effect.published.abs() * NEAR).max(SMALL_POINTS);
            return Some(match effect.is_reproduced() {
                true if effect.error.abs() <= near => Self::Near,
                true => Self::Far,
                false => Self::NotReproduced,
            });
        }
        let off = (row.value - row.published?).abs();
        let near = if row.in_points { NEAR_POINTS } else { row.published?.abs() * NEAR };
        Some(match row.kind {
            _ if row.note.as_ref().is_some_and(|note| note.contains("not reproduced")) => Self::NotReproduced,
            RowKind::Fitted => Self::Fitted,
            _ if off <= near => Self::Near,
            _ => Self::Far,
        })
    }
}

/// The number of published figures by verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Score {
    /// Figures that a parameter was chosen for.
    pub fitted: usize,
    /// Others within 25 % of the published ones; differences in percent within 10 points.
    pub near: usize,
    /// Others farther off.
    pub far: usize,
    /// Those marked as not reproduced.
    pub not_reproduced: usize,
}

impl Score {
    /// Returns the score of the rows that stand beside published figures.
    pub fn of(rows: &[Row]) -> Self {
        let mut score = Self::default();
        for verdict in rows.iter().filter_map(Verdict::of) {
            *match verdict {
                Verdict::Fitted => &mut score.fitted,
                Verdict::Near => &mut score.near,
                Verdict::Far => &mut score.far,
                Verdict::NotReproduced => &mut score.not_reproduced,
            } += 1;
        }
        score
    }

    /// Returns the number of published figures.
    pub fn published(&self) -> usize {
        self.fitted + self.near + self.far + self.not_reproduced
    }

    /// Returns the score in a line: `10 published figures: 4 fitted, 6 within 25 %`. Counts of 0 are left out.
    pub fn words(&self) -> String {
        let plural = if self.published() == 1 { "" } else { "s" };
        let parts: Vec<String> = self
            .parts()
            .into_iter()
            .filter(|part| part.0 > 0)
            .map(|(n, what, _)| format!("{n} {what}"))
            .collect();
        match self.published() {
            0 => "no published figures".into(),
            all => format!("{all} published figure{plural}: {}", parts.join(", ")),
        }
    }

    /// Returns its counts, with their names and those of their colours.
    pub(super) fn parts(&self) -> [(usize, &'static str, &'static str); 4] {
        [
            (self.fitted, "fitted", "fit"),
            (self.near, "within 25 %", "near"),
            (self.far, "farther off", "far"),
            (self.not_reproduced, "not reproduced", "not"),
        ]
    }
}

impl Sum for Score {
    fn sum<I: Iterator<Item = Self>>(scores: I) -> Self {
        scores.fold(Self::default(), |sum, one| Self {
            fitted: sum.fitted + one.fitted,
            near: sum.near + one.near,
            far: sum.far + one.far,
            not_reproduced: sum.not_reproduced + one.not_reproduced,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: i64, kind: RowKind) -> Row {
        Row::new("l", ("m", "ms"), value * 1_000_000, kind)
    }

    #[test]
    fn each_published_figure_has_one_verdict() {
        let rows = [
            row(5, RowKind::Predicted),
            row(5, RowKind::Fitted).beside(7.0),
            row(5, RowKind::Predicted).beside(4.0),
            row(5, RowKind::Predicted).beside(3.9),
            row(5, RowKind::Predicted).beside(1.0),
            row(5, RowKind::Measured).beside(5.0),
            row(5, RowKind::Predicted).beside_in_points(-5.0),
            row(5, RowKind::Predicted).beside_in_points(-6.0),
            row(5, RowKind::Predicted).beside_in_points(-6.0).saying("not reproduced: the other sign"),
            // The level is near, and the effect of going from 5 to 6 is missing.
            row(5, RowKind::Predicted).beside(6.0).effect_over(&row(5, RowKind::Fitted).beside(5.0)),
        ];
        let score = Score::of(&rows);
        assert_eq!(score, Score { fitted: 1, near: 3, far: 2, not_reproduced: 3 });
        assert_eq!(
            score.words(),
            "9 published figures: 1 fitted, 3 within 25 %, 2 farther off, 3 not reproduced"
        );
        assert_eq!(Score::of(&rows[..1]).words(), "no published figures");
        assert_eq!([score, score].into_iter().sum::<Score>().published(), 18);
    }
}
