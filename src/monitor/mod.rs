//! What is drawn of a running cluster: bars, charts, the terminal screen, the picture. Nothing here asks anybody; it is
//! given a [`view::ClusterView`].

pub mod bar;
pub mod chart;
pub mod lines;
pub mod screen;
pub mod svg;
pub mod text;
pub mod view;
