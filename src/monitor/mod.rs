//! Rendering of a running cluster: bars, charts, terminal screen, SVG picture. Does no I/O to the cluster; its input is a
//! [`view::ClusterView`].

pub mod bar;
pub mod chart;
pub mod lines;
pub mod plot;
pub mod screen;
pub mod svg;
pub mod text;
pub mod view;
