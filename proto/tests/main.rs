//! Every record, in both directions: against captured frames, and against itself.

mod captured_frames;
mod properties;
