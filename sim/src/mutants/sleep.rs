//! Mutants of clusters that sleep.

use super::{Defect, Delivered, is_planted, object};
use elastick::fleet::group::Instance;
use elastick::net::message;
use elastick::tick::plant::Plant;
use proto::MessageKind;

impl Defect {
    /// Returns whether only a cluster that sleeps shows it.
    pub fn needs_sleep(self) -> bool {
        matches!(self, Defect::ForgetsToWake | Defect::WrittenTooFar | Defect::SleepsUncovered)
    }
}

/// The tickerplant's place in a fleet of which it is no instance.
pub const OUTSIDE: Instance = Instance(u64::MAX);

/// Returns whether a request of the fleet is lost although it counts as granted.
pub fn is_forgotten(instance: Instance) -> bool {
    instance == OUTSIDE && is_planted(Defect::ForgetsToWake)
}

/// Returns a call of the write-down process as a tickerplant with the mutant takes it.
pub(super) fn written(plant: &Plant, name: &str, defect: Defect) -> Option<Delivered> {
    let is_concerned = defect == Defect::WrittenTooFar && name == ".u.asg.written";
    is_concerned.then(|| all_is_written(plant)).flatten().map(Delivered::Instead)
}

/// Returns the call that a tickerplant with the mutant takes in addition, before this one: with it, the nodes of a sleeping queue begin at the tip.
pub fn before(plant: &Plant, name: &str) -> Option<Vec<u8>> {
    let queue = plant.queue();
    let is_asleep = || queue.lines().values().any(|line| queue.is_asleep(line));
    let is_concerned = is_planted(Defect::SleepsUncovered) && name == ".u.asg.wake" && is_asleep();
    is_concerned.then(|| all_is_written(plant)).flatten()
}

/// Returns the object of a call that says that all updates so far are written down.
fn all_is_written(plant: &Plant) -> Option<Vec<u8>> {
    let call = message::message(MessageKind::Async, |writer| {
        writer.list_head(3);
        writer.symbol(b".u.asg.written");
        writer.atom_date(plant.queue().date().0);
        writer.atom_long(i64::try_from(plant.tip()).unwrap_or(i64::MAX));
    });
    Some(object(&call.ok()?))
}
