//! Effects: the change that a mechanism makes, as published and as modelled, and the skill of predicting it.

use super::{Parameters, Row, RowKind};
use serde::Serialize;
use wharf_plan::nics::Mark;

/// Effects below this many points are as good as none: an error of as much is near.
pub const SMALL_POINTS: f64 = 2.0;

/// A published change, and ours: in percent of the figure without the mechanism, or in points where the figures are
/// shares themselves. The keys are a promise, as those of [`Row`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Effect {
    /// The published change.
    pub published: f64,
    /// Ours.
    pub value: f64,
    /// Ours less the published one, in points.
    pub error: f64,
    /// The least and the greatest over all seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<[f64; 2]>,
}

impl Effect {
    /// Creates an effect; both changes are rounded to hundredths.
    pub fn new(published: f64, value: f64) -> Self {
        let (published, value) = (hundredths(published), hundredths(value));
        Self { published, value, error: hundredths(value - published), spread: None }
    }

    /// Returns the change from `before` to `now` in percent, as published and ours; none from 0.
    pub(super) fn between(before: [f64; 2], now: [f64; 2]) -> Option<Self> {
        let change = |at: usize| (now[at] / before[at] - 1.0) * 100.0;
        (before[0] != 0.0 && before[1] != 0.0).then(|| Self::new(change(0), change(1)))
    }

    /// Returns the effect with the median of `values` as ours, and their ends as its spread.
    pub(super) fn of_seeds(self, mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let (Some(&least), Some(&most)) = (values.first(), values.last()) else { return self };
        let spread = Some([least, most]);
        Self { spread, ..Self::new(self.published, values[values.len() / 2]) }
    }

    /// True if nearly nothing changed where it was published.
    pub fn is_small(&self) -> bool {
        self.published.abs() <= SMALL_POINTS
    }

    /// True if at least half of the published effect is there and at most twice as much, with its sign under each
    /// seed; of a small effect, if the error is small.
    pub fn is_reproduced(&self) -> bool {
        if self.is_small() {
            return self.error.abs() <= SMALL_POINTS;
        }
        let share = self.value / self.published;
        let [least, most] = self.spread.unwrap_or([self.value; 2]);
        (0.5..=2.0).contains(&share) && (least > 0.0) == (most > 0.0)
    }
}

fn hundredths(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// The skill of an experiment against the null model "nothing changes", and the number of its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Default)]
pub struct Judgement {
    /// Published effects beside ours.
    pub effects: usize,
    /// Those that a parameter was fitted to: they count no further.
    pub fitted_effects: usize,
    /// Mean error of the others, in points.
    pub mean_error: f64,
    /// Mean error of the null model, in points: the mean size of the published effects.
    pub null_error: f64,
    /// 1 less the ratio of the two: 1 for no error, 0 for no better than the null model.
    pub skill: Option<f64>,
    /// Parameters chosen so that a published figure comes out.
    pub fitted: usize,
    /// Parameters that no source gives.
    pub assumed: usize,
    /// Those of them that a published figure bounds.
    pub target_bound: usize,
    /// Parameters that a source gives.
    pub published: usize,
}

impl Judgement {
    /// Judges rows that follow from `parameters`.
    pub fn of(rows: &[Row], parameters: &Parameters) -> Self {
        let effects = || rows.iter().filter_map(|row| Some((row.kind, row.effect?)));
        let judged: Vec<Effect> =
            effects().filter(|(kind, _)| *kind != RowKind::Fitted).map(|(_, effect)| effect).collect();
        let mean = |of: fn(&Effect) -> f64| judged.iter().map(of).sum::<f64>() / judged.len().max(1) as f64;
        let [mean_error, null_error] =
            [mean(|effect| effect.error.abs()), mean(|effect| effect.published.abs())];
        let count =
            |of: &dyn Fn(&super::Parameter) -> bool| parameters.iter().filter(|entry| of(entry.1)).count();
        Self {
            effects: effects().count(),
            fitted_effects: effects().count() - judged.len(),
            mean_error: hundredths(mean_error),
            null_error: hundredths(null_error),
            skill: (null_error > 0.0).then(|| hundredths(1.0 - mean_error / null_error)),
            fitted: count(&|entry| entry.kind == Mark::Fitted),
            assumed: count(&|entry| entry.kind == Mark::Assumed),
            target_bound: count(&|entry| entry.kind == Mark::Assumed && entry.bound_by.is_some()),
            published: count(&|entry| entry.kind == Mark::Published),
        }
    }

    /// Returns the verdict on the effects in a sentence; empty if none was published.
    pub fn words(&self) -> String {
        let judged = self.effects - self.fitted_effects;
        let Some(skill) = self.skill.filter(|_| judged > 0) else { return String::new() };
        let verdict = if skill > 0.0 { "" } else { "NO BETTER THAN \"NOTHING CHANGES\": " };
        let fitted = match self.fitted_effects {
            0 => String::new(),
            count => format!(" ({count} more fitted)"),
        };
        format!(
            "{verdict}{judged} predicted effects{fitted} are off by {:.1} points on average, and \"nothing changes\" by \
             {:.1}: skill {skill:.2}",
            self.mean_error, self.null_error
        )
    }

    /// Returns the number of parameters by kind, in words.
    pub fn parameters(&self) -> String {
        let Self { fitted, assumed, target_bound, published, .. } = self;
        let bound =
            if *target_bound > 0 { format!(" ({target_bound} bound by a target)") } else { String::new() };
        format!("parameters: {fitted} fitted, {assumed} assumed{bound}, {published} published")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_an_effect_with_its_sign_is_reproduced() {
        for (published, value, spread, reproduced) in [
            (-5.8, -2.9, None, true),
            (-5.8, -2.8, None, false),
            (-5.8, 3.0, None, false),
            (-5.8, -3.0, Some([-4.0, 0.5]), false),
            (1.0, -0.9, None, true),
            (1.0, 3.1, None, false),
        ] {
            let effect = Effect { spread, ..Effect::new(published, value) };
            assert_eq!(effect.is_reproduced(), reproduced, "{effect:?}");
        }
        assert_eq!(Effect::between([0.0, 1.0], [1.0, 1.0]), None);
        assert_eq!(Effect::between([12.8, 12.8], [14.8, 14.8]), Some(Effect::new(15.63, 15.63)));
    }

    #[test]
    fn skill_is_1_without_error_and_0_for_no_change() {
        let parameters = Parameters::read("none", "").unwrap();
        let row = |published: f64, value: f64, kind| {
            let row = Row::new("l", ("m", "percent"), (value * 1e6) as i64, kind).beside_in_points(published);
            row.is_effect()
        };
        let skill = |rows: &[Row]| Judgement::of(rows, &parameters).skill;
        assert_eq!(skill(&[row(10.0, 10.0, RowKind::Predicted)]), Some(1.0));
        assert_eq!(
            skill(&[row(10.0, 0.0, RowKind::Predicted), row(-4.0, 0.0, RowKind::Predicted)]),
            Some(0.0)
        );
        let fitted = Judgement::of(&[row(10.0, 10.0, RowKind::Fitted)], &parameters);
        assert_eq!((fitted.skill, fitted.fitted_effects, fitted.words()), (None, 1, String::new()));
    }

    #[test]
    fn the_median_of_seeds_has_their_spread() {
        let effect = Effect::new(10.0, 1.0).of_seeds(vec![3.0, 1.0, 2.0]);
        assert_eq!((effect.value, effect.error, effect.spread), (2.0, -8.0, Some([1.0, 3.0])));
    }
}
