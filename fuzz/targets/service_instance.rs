//! The reader of discovery records on hostile bytes: no panic, no allocation beyond a multiple of
//! the input, an offset within the input, and a record that was read is written and read again as
//! the same.

use serde_json::Value;
use zk_curator_discovery::json::{JsonMode, read, write};
use zk_curator_discovery::{PayloadCodec, ServiceType};

/// How much the reader may allocate: this many bytes for each of the input, and a little for
/// errors.
const MULTIPLE: usize = 128;
const BASE: usize = 64 * 1024;

pub(crate) fn run(input: &[u8]) {
    let allowed = crate::ALLOCATOR.allocated() + BASE + MULTIPLE * input.len();
    crate::ALLOCATOR.set_limit(allowed).expect("room");
    match read::<Value>(input, "name", "id") {
        Err(fault) => assert!(fault.offset <= input.len(), "{fault}"),
        Ok(instance) if matches!(instance.service_type, ServiceType::Other(_)) => {}
        Ok(instance) => {
            // A record without its name gets it, which may be more than a reader accepts.
            if let Ok(data) = write(&instance, &PayloadCodec::plain(), JsonMode::Compatible) {
                let again = read::<Value>(&data, "", "").expect("it was written");
                assert_eq!(again.payload, instance.payload);
                assert_eq!((&again.name, &again.id), (&instance.name, &instance.id));
                assert_eq!((&again.address, again.port), (&instance.address, instance.port));
                assert_eq!((again.ssl_port, again.enabled), (instance.ssl_port, instance.enabled));
                assert_eq!(again.uri_spec, instance.uri_spec);
                assert!(again.unknown_fields().eq(instance.unknown_fields()));
                let twice = write(&again, &PayloadCodec::plain(), JsonMode::Compatible);
                assert_eq!(twice.expect("it was written"), data);
            }
        }
    }
    crate::ALLOCATOR.set_limit(usize::MAX).expect("room");
}
