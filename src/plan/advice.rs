//! Which instances and thresholds to take: the cheapest that keep a stated cushion.

/// A type of instances with thresholds, and what it comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Cost of the planned day, with what its lag and its dead nodes cost.
    pub cost_usd: f64,
    /// Smallest cushion, in lead times, on the day with the surge. Infinite if no node rolls.
    pub cushion: f64,
    /// Whether the live node lagged behind the log at any time of that day.
    pub is_behind: bool,
}

impl Choice {
    fn keeps(&self, cushion: f64) -> bool {
        !self.is_behind && self.cushion >= cushion
    }
}

/// Returns the index of the cheapest choice that keeps a cushion; of equally cheap ones the safest. `None` if none does.
pub fn cheapest(choices: &[Choice], cushion: f64) -> Option<usize> {
    let order = |(_, one): &(usize, &Choice), (_, other): &(usize, &Choice)| {
        one.cost_usd.total_cmp(&other.cost_usd).then(other.cushion.total_cmp(&one.cushion))
    };
    let keeping = choices.iter().enumerate().filter(|(_, choice)| choice.keeps(cushion));
    keeping.min_by(order).map(|(index, _)| index)
}

/// Returns the indices of the choices that do not fall behind and for which no other such choice is both cheaper and safer, by growing cost.
pub fn frontier(choices: &[Choice]) -> Vec<usize> {
    let mut by_cost: Vec<(usize, &Choice)> =
        choices.iter().enumerate().filter(|(_, choice)| !choice.is_behind).collect();
    by_cost.sort_by(|(_, one), (_, other)| {
        one.cost_usd.total_cmp(&other.cost_usd).then(other.cushion.total_cmp(&one.cushion))
    });
    let mut safest = f64::NEG_INFINITY;
    let mut best = Vec::new();
    for (index, choice) in by_cost {
        if choice.cushion > safest {
            safest = choice.cushion;
            best.push(index);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(cost_usd: f64, cushion: f64) -> Choice {
        Choice { cost_usd, cushion, is_behind: cushion < 1.0 }
    }

    #[test]
    fn the_cheapest_that_keeps_the_cushion_is_taken() {
        let all = [choice(3.0, 2.5), choice(2.0, 1.9), choice(2.5, 2.0), choice(2.5, 4.0), choice(1.0, 0.5)];
        assert_eq!(cheapest(&all, 2.0), Some(3));
        assert_eq!(cheapest(&all, 0.0), Some(1), "what falls behind is never taken");
        assert_eq!(cheapest(&all, 9.0), None);
    }

    #[test]
    fn the_frontier_leaves_out_what_is_dearer_and_no_safer() {
        let all = [choice(3.0, 2.5), choice(2.0, 1.9), choice(2.5, 4.0), choice(1.0, 0.5), choice(4.0, f64::INFINITY)];
        assert_eq!(frontier(&all), [1, 2, 4]);
    }
}
