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
            "{:?} date {:?} missed {:?} tip {:?} connected {} greeted {} dialect {:?} held {windows:?} open {open:?} rows {} hidden {} \
             replay {replay:?} session {} fence {:?} asks {} rejoins {} fault {:?} resyncs {} stuck {:?} leaves {} unwatched {} unsent {}",
            self.policy.phase(),
            self.date,
            self.missed_date,
            self.tip,
            self.connected,
            self.greeted,
            self.dialect,
            self.intake.rows(),
            self.intake.is_hidden(),
            self.session.shape(),
            self.fence,
            self.ask_date,
            self.rejoin,
            self.fault,
            self.resyncs_in_a_row,
            self.stuck,
            self.departure.is_some(),
            self.unwatched_bytes,
            self.out.len(),
        )
    }
}
