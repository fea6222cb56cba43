//! Instance types: their memory and what they cost.

use serde::Deserialize;

/// Types that come with elastick.
const SHIPPED: &str = include_str!("prices.toml");
/// Longest list.
const MAX_TYPES: usize = 1000;

/// A list of types, with where and when its prices were found.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    pub date: String,
    pub source: String,
    #[serde(rename = "type")]
    pub types: Vec<InstanceType>,
}

/// A type of instances.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceType {
    pub name: String,
    pub memory_gib: f64,
    pub usd_per_hour: f64,
    /// Seconds from the request for such an instance until its node waits in the queue, if they were measured.
    #[serde(default)]
    pub lead_s: Option<f64>,
}

impl InstanceType {
    pub fn memory_bytes(&self) -> u64 {
        (self.memory_gib * (1u64 << 30) as f64) as u64
    }
}

impl Prices {
    /// Returns the types that come with elastick.
    ///
    /// # Errors
    /// Never: a test reads the list.
    pub fn shipped() -> Result<Prices, String> {
        Prices::parse(SHIPPED)
    }

    /// Reads a list.
    ///
    /// # Errors
    /// It is not TOML of this form, or a figure makes no sense.
    pub fn parse(text: &str) -> Result<Prices, String> {
        let prices: Prices = toml::from_str(text).map_err(|error| error.to_string().trim().to_string())?;
        if prices.types.len() > MAX_TYPES {
            return Err(format!("more than {MAX_TYPES} types"));
        }
        let is_positive = |number: f64| number.is_finite() && number > 0.0;
        let is_right = |of: &&InstanceType| {
            is_positive(of.memory_gib) && is_positive(of.usd_per_hour) && of.lead_s.is_none_or(is_positive)
        };
        match prices.types.iter().find(|of| !is_right(of)) {
            Some(of) => Err(format!("{}: memory_gib, usd_per_hour and lead_s must be above 0", of.name)),
            None => Ok(prices),
        }
    }

    /// Returns a type.
    ///
    /// # Errors
    /// It is not in the list.
    pub fn find(&self, name: &str) -> Result<&InstanceType, String> {
        self.types.iter().find(|of| of.name == name).ok_or_else(|| {
            // Those of its family, or else the families.
            let family = |name: &str| name.split('.').next().unwrap_or_default().to_string();
            let names = || self.types.iter().map(|of| of.name.clone());
            let mut known: Vec<String> = names().filter(|known| family(known) == family(name)).collect();
            if known.is_empty() {
                known = names().map(|name| format!("{}.…", family(&name))).collect();
                known.dedup();
            }
            format!("{name} is not in the list of prices of {}, which has {}", self.date, known.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_list_has_the_papers_types() {
        let prices = Prices::shipped().unwrap();
        let of = prices.find("t3a.2xlarge").unwrap();
        assert_eq!((of.memory_bytes(), format!("{:.4}", of.usd_per_hour * 24.0)), (32 << 30, "7.2192".to_string()));
        assert!(prices.find("m9.huge").unwrap_err().contains("m9.huge is not in the list of prices of 2026-01-19"));
    }

    #[test]
    fn bad_lists_are_rejected_in_words() {
        let of = |rest: &str| Prices::parse(&format!("date=\"d\"\nsource=\"s\"\n[[type]]\nname=\"x\"\n{rest}"));
        assert!(of("memory_gib=0\nusd_per_hour=1").unwrap_err().contains("x: memory_gib, usd_per_hour and lead_s"));
        assert!(of("memory_gib=1\nusd_per_hour=1\nlead_s=-1").unwrap_err().contains("lead_s must be above 0"));
        assert!(of("memory_gib=1").unwrap_err().contains("usd_per_hour"));
        assert!(of("memory_gib=1\nusd_per_hour=1\neur=2").unwrap_err().contains("eur"));
    }
}
