//! Every record, in both directions: compared with captured frames, and with itself.

mod captured_frames;
mod properties;
