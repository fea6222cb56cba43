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
        let replay = self.replay.as_ref().map(super::replay::Replay::shape);
        format!(
            "{:?} date {:?} missed {:?} tip {:?} held {windows:?} open {open:?} rows {} hidden {} \
             replay {replay:?} link {} fence {:?} asks {} resyncs {} stuck {:?} leaves {} {}",
            self.policy.phase(),
            self.date,
            self.missed_date,
            self.tip,
            self.intake.rows(),
            self.intake.is_hidden(),
            self.link.shape(),
            self.fence,
            self.ask_date,
            self.resyncs_in_a_row,
            self.stuck,
            self.departure.is_some(),
            self.memory.shape(),
        )
    }
}
