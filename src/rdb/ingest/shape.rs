//! State fingerprint of a node, for the state-equality check of the simulator.

use super::Ingest;

impl Ingest {
    /// Returns as text all state that determines the node's further behaviour, except time and memory. Two nodes with
    /// equal fingerprints react equally to equal input.
    pub fn shape(&self) -> String {
        let windows: Vec<String> = self
            .intake
            .held()
            .iter()
            .map(|window| format!("{}-{} {:?}", window.first, window.next, self.intake.proof(window)))
            .collect();
        let open = self.intake.open_window().map(|open| {
            format!(
                "{}-{} to {:?} {:?}",
                open.window.first,
                open.window.next,
                open.last,
                self.intake.proof(&open.window)
            )
        });
        format!(
            "{:?} {:?} held {windows:?} open {open:?} rows {} hidden {} replay {} link {} log {:?} {} leaves {} {}",
            self.policy.phase(),
            self.day,
            self.intake.rows(),
            self.intake.is_hidden(),
            self.replays.shape(),
            self.link.shape(),
            self.log,
            self.progress.shape(),
            self.leave.is_announced(),
            self.memory.shape(),
        )
    }
}
