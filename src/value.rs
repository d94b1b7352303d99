//! Values of a service as the data of nodes: for [`typed`](crate::typed) nodes, and for recipes
//! that store values.
//!
//! Bytes are stored unchanged. Strings, numbers and booleans are stored as text that people and
//! programs in other languages can read. With the feature `serde`, `Json` stores a value of any
//! type. Other types implement [`ToData`] and [`FromData`]:
//!
//! ```
//! use bytes::Bytes;
//! use std::sync::Arc;
//! use zk_curator::value::{Failure, FromData, ToData};
//!
//! /// The four bytes, big-endian, of Curator's `SharedCount`.
//! #[derive(Debug, PartialEq)]
//! struct Count(i32);
//!
//! impl ToData for Count {
//!     fn to_data(&self) -> Result<Bytes, Failure> {
//!         Ok(Bytes::copy_from_slice(&self.0.to_be_bytes()))
//!     }
//! }
//!
//! impl FromData for Count {
//!     fn from_data(data: &Bytes) -> Result<Self, Failure> {
//!         match data.as_ref().try_into() {
//!             Ok(bytes) => Ok(Self(i32::from_be_bytes(bytes))),
//!             Err(error) => Err(Arc::new(error)),
//!         }
//!     }
//! }
//!
//! assert_eq!(Count::from_data(&Count(7).to_data()?)?, Count(7));
//! # Ok::<(), Failure>(())
//! ```

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;

/// The reason why a value could not be encoded or decoded; the source of the operation's error.
pub type Failure = Arc<dyn Error + Send + Sync>;

/// Encodes a value as the data of a node (`org.apache.curator.x.async.modeled.ModelSerializer`,
/// with [`FromData`]).
pub trait ToData {
    /// Returns the data of the node.
    ///
    /// # Errors
    /// The reason why the value cannot be encoded.
    fn to_data(&self) -> Result<Bytes, Failure>;
}

/// Decodes the data of a node.
///
/// Other programs may have written the data: implementations must not panic.
pub trait FromData: Sized {
    /// Returns the value.
    ///
    /// # Errors
    /// The reason why the data are not a value of this type.
    fn from_data(data: &Bytes) -> Result<Self, Failure>;
}

impl<T: ToData + ?Sized> ToData for &T {
    fn to_data(&self) -> Result<Bytes, Failure> {
        (**self).to_data()
    }
}

impl ToData for Bytes {
    fn to_data(&self) -> Result<Bytes, Failure> {
        Ok(self.clone())
    }
}

impl FromData for Bytes {
    fn from_data(data: &Bytes) -> Result<Self, Failure> {
        Ok(data.clone())
    }
}

impl ToData for [u8] {
    fn to_data(&self) -> Result<Bytes, Failure> {
        Ok(Bytes::copy_from_slice(self))
    }
}

impl<const N: usize> ToData for [u8; N] {
    fn to_data(&self) -> Result<Bytes, Failure> {
        self.as_slice().to_data()
    }
}

impl ToData for Vec<u8> {
    fn to_data(&self) -> Result<Bytes, Failure> {
        self.as_slice().to_data()
    }
}

impl FromData for Vec<u8> {
    fn from_data(data: &Bytes) -> Result<Self, Failure> {
        Ok(data.to_vec())
    }
}

impl ToData for str {
    fn to_data(&self) -> Result<Bytes, Failure> {
        self.as_bytes().to_data()
    }
}

impl ToData for String {
    fn to_data(&self) -> Result<Bytes, Failure> {
        self.as_bytes().to_data()
    }
}

impl FromData for String {
    fn from_data(data: &Bytes) -> Result<Self, Failure> {
        text(data).map(str::to_owned)
    }
}

fn text(data: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(data).map_err(|why| Arc::new(why) as Failure)
}

/// Encodes types as text. Surrounding white space, such as the end of a line, is ignored when
/// decoding.
macro_rules! as_text {
    ($($type:ty)*) => {$(
        impl ToData for $type {
            fn to_data(&self) -> Result<Bytes, Failure> {
                Ok(self.to_string().into())
            }
        }

        impl FromData for $type {
            fn from_data(data: &Bytes) -> Result<Self, Failure> {
                text(data)?.trim().parse().map_err(|why| Arc::new(why) as Failure)
            }
        }
    )*};
}

as_text!(bool i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64);

/// A value of any serde type, in JSON without additional spaces (feature `serde`). To decode a
/// value, its type must be `DeserializeOwned`; to encode it, `Serialize`. Unknown fields are
/// ignored, as by Curator's `JacksonModelSerializer`, unless the type refuses them.
///
/// ```
/// use zk_curator::value::{FromData, Json, ToData};
///
/// let data = Json(vec![1, 2, 3]).to_data()?;
/// assert_eq!(data, "[1,2,3]");
/// let Json(numbers) = Json::<Vec<u8>>::from_data(&data)?;
/// assert_eq!(numbers, [1, 2, 3]);
/// assert!(Json::<bool>::from_data(&data).is_err());
/// # Ok::<(), zk_curator::value::Failure>(())
/// ```
#[cfg(feature = "serde")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "users construct and destructure it")]
pub struct Json<T>(pub T);

#[cfg(feature = "serde")]
mod json {
    use std::ops::{Deref, DerefMut};
    use std::sync::Arc;

    use bytes::Bytes;
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    use super::{Failure, FromData, Json, ToData};

    impl<T> Deref for Json<T> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.0
        }
    }

    impl<T> DerefMut for Json<T> {
        fn deref_mut(&mut self) -> &mut T {
            &mut self.0
        }
    }

    impl<T: Serialize> ToData for Json<T> {
        fn to_data(&self) -> Result<Bytes, Failure> {
            serde_json::to_vec(&self.0).map(Bytes::from).map_err(|why| Arc::new(why) as Failure)
        }
    }

    impl<T: DeserializeOwned> FromData for Json<T> {
        fn from_data(data: &Bytes) -> Result<Self, Failure> {
            serde_json::from_slice(data).map(Self).map_err(|why| Arc::new(why) as Failure)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_as_people_write_them() {
        let data = |value: &dyn ToData| value.to_data().unwrap();
        assert_eq!(data(&true), "true");
        assert_eq!(data(&-7), "-7");
        assert_eq!(data(&0.5), "0.5");
        assert_eq!(data(&"text"), "text");
        assert_eq!(data(&&[0_u8, 255][..]), vec![0, 255]);
        assert_eq!(u16::from_data(&"5432\n".into()).unwrap(), 5432);
        assert_eq!(String::from_data(&" kept ".into()).unwrap(), " kept ");
        assert!(!bool::from_data(&"false".into()).unwrap());
    }

    #[cfg(feature = "serde")]
    #[test]
    fn json_is_read_as_a_type_that_cannot_be_written() {
        #[derive(serde::Deserialize)]
        struct Limits {
            jobs: u32,
        }
        #[derive(serde::Serialize)]
        struct Report {
            jobs: u32,
        }
        let Json(limits) = Json::<Limits>::from_data(&r#"{"jobs":8}"#.into()).unwrap();
        assert_eq!(Json(Report { jobs: limits.jobs }).to_data().unwrap(), r#"{"jobs":8}"#);
        assert!(Json::<Limits>::from_data(&"8".into()).is_err());
    }

    #[test]
    fn what_is_no_value_of_the_type_is_refused() {
        for data in ["", "x", "70000", "-1", "1.5"] {
            assert!(u16::from_data(&data.into()).is_err(), "{data}");
        }
        assert!(String::from_data(&Bytes::from_static(b"\xff")).is_err());
    }
}
