//! Nodes as people read them. Everything here is pure.

mod acl;
mod chart;
mod count;
mod data;
mod group;
mod json;
mod kind;
mod quota;
mod recipe;
mod sides;
mod size;
mod text;
mod time;

pub(crate) use acl::{AclLine, acl_lines};
pub(crate) use chart::{Chart, ChartPoint, ChartSeries, ChartSpan, ChartTexts, number};
pub(crate) use count::{grouped, unless_zero};
pub(crate) use data::{DataView, MOST_SHOWN, data_view, opened, text_of};
pub(crate) use group::RecipeGroup;
pub(crate) use kind::{NodeKind, is_sequential, sequence_of};
pub(crate) use quota::{QuotaLine, quota_lines};
pub(crate) use recipe::{
    ContenderView, contender_views, is_known, place_sentence, sentence, summary,
};
pub(crate) use sides::{SideRow, sides, value_lines};
pub(crate) use size::{size, size_of};
pub(crate) use text::{visible, visible_data};
pub(crate) use time::{When, duration, millis, now_ms, when};
