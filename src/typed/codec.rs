use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why a value could not be encoded or decoded; becomes the source of the operation's error.
pub type CodecFailure = Box<dyn std::error::Error + Send + Sync>;

/// Turns values into the data of nodes (`org.apache.curator.x.async.modeled.ModelSerializer`, with [`Decode`]).
///
/// It is called on the task that uses it.
///
/// ```
/// use bytes::Bytes;
/// use zk_curator::typed::{CodecFailure, Decode, Encode};
///
/// /// The four bytes, big-endian, of Curator's `SharedCount`.
/// #[derive(Debug, Clone)]
/// struct BigEndian;
///
/// impl Encode<i32> for BigEndian {
///     fn encode(&self, value: &i32) -> Result<Bytes, CodecFailure> {
///         Ok(Bytes::copy_from_slice(&value.to_be_bytes()))
///     }
/// }
///
/// impl Decode<i32> for BigEndian {
///     fn decode(&self, data: Bytes) -> Result<i32, CodecFailure> {
///         Ok(i32::from_be_bytes(data.as_ref().try_into()?))
///     }
/// }
/// ```
pub trait Encode<T>: Clone + Send + Sync + 'static {
    /// The data of a value.
    ///
    /// # Errors
    /// When the value has no data; the operation then fails with `InvalidArgument`.
    fn encode(&self, value: &T) -> Result<Bytes, CodecFailure>;
}

/// Turns the data of nodes into values.
///
/// The data were written by others: it must not panic.
pub trait Decode<T>: Clone + Send + Sync + 'static {
    /// The value of data.
    ///
    /// # Errors
    /// When the data are not those of a value; the operation then fails with `Undecodable`.
    fn decode(&self, data: Bytes) -> Result<T, CodecFailure>;
}

/// JSON without additional spaces. A type that is only read need not be `Serialize`, and one that is only written need not be
/// `DeserializeOwned`. Fields that the type does not have are ignored, as by Curator's
/// `JacksonModelSerializer`, unless the type says otherwise.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::exhaustive_structs, reason = "named by its users")]
pub struct Json;

impl<T: Serialize> Encode<T> for Json {
    fn encode(&self, value: &T) -> Result<Bytes, CodecFailure> {
        Ok(serde_json::to_vec(value)?.into())
    }
}

impl<T: DeserializeOwned> Decode<T> for Json {
    fn decode(&self, data: Bytes) -> Result<T, CodecFailure> {
        Ok(serde_json::from_slice(&data)?)
    }
}

/// The bytes as they are: of [`Bytes`], of `Vec<u8>`, and of `String`, which has to be UTF-8.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::exhaustive_structs, reason = "named by its users")]
pub struct Raw;

impl Encode<Bytes> for Raw {
    fn encode(&self, value: &Bytes) -> Result<Bytes, CodecFailure> {
        Ok(value.clone())
    }
}

impl Decode<Bytes> for Raw {
    fn decode(&self, data: Bytes) -> Result<Bytes, CodecFailure> {
        Ok(data)
    }
}

impl Encode<Vec<u8>> for Raw {
    fn encode(&self, value: &Vec<u8>) -> Result<Bytes, CodecFailure> {
        Ok(Bytes::copy_from_slice(value))
    }
}

impl Decode<Vec<u8>> for Raw {
    fn decode(&self, data: Bytes) -> Result<Vec<u8>, CodecFailure> {
        Ok(data.into())
    }
}

impl Encode<String> for Raw {
    fn encode(&self, value: &String) -> Result<Bytes, CodecFailure> {
        Ok(Bytes::copy_from_slice(value.as_bytes()))
    }
}

impl Decode<String> for Raw {
    fn decode(&self, data: Bytes) -> Result<String, CodecFailure> {
        Ok(String::from_utf8(data.into())?)
    }
}
