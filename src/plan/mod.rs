//! What a day costs and risks: the queue of the tickerplant, the policy of the nodes and the rules of the group, production's own code, on
//! virtual time. Source: "RDB Autoscaling", cost and risk analysis.
//!
//! [`shape`] holds when the day's bytes arrive, [`prices`] what instances cost. [`day`] simulates one day, also of a cluster that sleeps, and
//! [`figures`] adds up its cost and memory.
//! [`noise`] makes days that differ, [`risk`] says how they end, [`losses`] what that costs, [`advice`] chooses, and [`paper`] has the paper's own tables.

pub mod advice;
pub mod day;
pub mod figures;
pub mod losses;
pub mod noise;
pub mod paper;
pub mod prices;
pub mod risk;
pub mod shape;
