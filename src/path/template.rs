//! Templates of paths, whose components may be parameters.

use std::borrow::Cow;
use std::fmt;

use zk_curator_client::path::{PathError, validate};

use super::name::{NameError, NodeName, check};

/// The template of a path: an absolute path whose components may be parameters (`/orders/{id}`;
/// `org.apache.curator.x.async.modeled.ZPath`).
///
/// A parameter is a whole component: a name of letters, digits and `_` in braces. Its value becomes
/// the [name](NodeName) of one node.
///
/// ```
/// use zk_curator::path::{PathTemplate, ResolveError};
///
/// let orders = PathTemplate::parse("/orders/{region}/{id}")?;
/// let path = orders.resolve([("id", "7"), ("region", "eu")])?;
/// assert_eq!(path.as_str(), "/orders/eu/7");
/// assert_eq!(orders.matches("/orders/eu/7"), Some(vec![("region", "eu"), ("id", "7")]));
///
/// let missing = orders.resolve([("id", "7")]).unwrap_err();
/// assert_eq!(missing, ResolveError::Unresolved { names: vec!["region".to_owned()] });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// If the parameters are known when the program is compiled,
/// [`path_template!`](crate::path_template) checks them then.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PathTemplate(Cow<'static, str>);

/// The reason why a string is not a template.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateError {
    /// It is not a path either.
    Path(PathError),
    /// A component has a brace, but is not a name of letters, digits and `_` in braces.
    Parameter {
        /// The component.
        component: String,
    },
    /// Two parameters have the same name.
    Repeated {
        /// The name.
        name: String,
    },
}

/// The reason why a template has no path for some values.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolveError {
    /// Parameters have no value.
    Unresolved {
        /// Their names, in the order of the template.
        names: Vec<String>,
    },
    /// Values are not those of parameters of the template.
    Unknown {
        /// Their names, in the order of the values.
        names: Vec<String>,
    },
    /// A parameter has several values.
    Repeated {
        /// Its name.
        name: String,
    },
    /// A value cannot be the name of a node.
    Refused {
        /// The name of the parameter.
        name: String,
        /// The value.
        value: String,
        /// The reason.
        why: NameError,
    },
}

impl PathTemplate {
    /// Parses a template. A path without parameters is one too.
    ///
    /// # Errors
    /// The first rule that `pattern` violates.
    pub fn parse(pattern: impl Into<Cow<'static, str>>) -> Result<Self, TemplateError> {
        let pattern = pattern.into();
        validate(&pattern).map_err(TemplateError::Path)?;
        let mut names = Vec::new();
        for component in components(&pattern) {
            match parameter(component) {
                Some(name) if names.contains(&name) => {
                    return Err(TemplateError::Repeated { name: name.to_owned() });
                }
                Some(name) => names.push(name),
                None if component.contains(['{', '}']) => {
                    return Err(TemplateError::Parameter { component: component.to_owned() });
                }
                None => {}
            }
        }
        Ok(Self(pattern))
    }

    /// Returns the template as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the names of the parameters, in their order.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        components(&self.0).filter_map(parameter)
    }

    /// Returns the path with these values of the parameters, in any order. Values of several types
    /// are passed as `&dyn NodeName`.
    ///
    /// # Errors
    /// The reason why there is no path.
    pub fn resolve<K: AsRef<str>, V: NodeName>(
        &self,
        values: impl IntoIterator<Item = (K, V)>,
    ) -> Result<super::ZPath, ResolveError> {
        let values: Vec<(K, V)> = values.into_iter().collect();
        let values: Vec<_> =
            values.iter().map(|(name, value)| (name.as_ref(), value.node_name())).collect();
        let unknown = values.iter().map(|(name, _)| *name);
        let unknown = unknown.filter(|name| self.parameters().all(|known| known != *name));
        let unknown: Vec<_> = unknown.map(str::to_owned).collect();
        if !unknown.is_empty() {
            return Err(ResolveError::Unknown { names: unknown });
        }
        let missing =
            self.parameters().filter(|name| values.iter().all(|(given, _)| given != name));
        let missing: Vec<_> = missing.map(str::to_owned).collect();
        if !missing.is_empty() {
            return Err(ResolveError::Unresolved { names: missing });
        }
        let mut path = String::new();
        for component in components(&self.0) {
            path.push('/');
            let Some(name) = parameter(component) else {
                path.push_str(component);
                continue;
            };
            let mut given = values.iter().filter(|(given, _)| *given == name);
            let value = given.next().map_or("", |(_, value)| &**value);
            if given.next().is_some() {
                return Err(ResolveError::Repeated { name: name.to_owned() });
            }
            if let Err(why) = check(value) {
                let (name, value) = (name.to_owned(), value.to_owned());
                return Err(ResolveError::Refused { name, value, why });
            }
            path.push_str(value);
        }
        if path.is_empty() {
            path.push('/');
        }
        Ok(super::ZPath(path))
    }

    /// Returns the names and values of the parameters, in their order, if a path is one of this
    /// template.
    #[must_use]
    pub fn matches<'a>(&'a self, path: &'a str) -> Option<Vec<(&'a str, &'a str)>> {
        validate(path).ok()?;
        let mut names = components(path);
        let mut values = Vec::new();
        for component in components(&self.0) {
            let name = names.next()?;
            match parameter(component) {
                Some(parameter) => values.push((parameter, name)),
                None if component == name => {}
                None => return None,
            }
        }
        names.next().is_none().then_some(values)
    }

    /// Returns the template of the parents, if the last component is a parameter.
    pub(crate) fn parent(&self) -> Option<Self> {
        let (parent, last) = self.0.rsplit_once('/')?;
        parameter(last)?;
        let parent = if parent.is_empty() { "/" } else { parent };
        Some(Self(parent.to_owned().into()))
    }
}

impl super::ZPath {
    /// Parses a [template](PathTemplate) of paths (`/orders/{id}`).
    ///
    /// # Errors
    /// The first rule that `pattern` violates.
    #[doc(alias = "parseWithIds")]
    pub fn template(pattern: impl Into<Cow<'static, str>>) -> Result<PathTemplate, TemplateError> {
        PathTemplate::parse(pattern)
    }
}

/// The components of a valid path: none for the root.
fn components(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').skip(1).filter(|component| !component.is_empty())
}

/// Returns the name of the parameter, if a component is one.
fn parameter(component: &str) -> Option<&str> {
    let name = component.strip_prefix('{')?.strip_suffix('}')?;
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    is_name.then_some(name)
}

impl fmt::Display for PathTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(_) => f.write_str("the template is not a path"),
            Self::Parameter { component } => {
                write!(f, "the component {component:?} is neither a name nor a parameter")
            }
            Self::Repeated { name } => write!(f, "two parameters have the name {name:?}"),
        }
    }
}

impl std::error::Error for TemplateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Path(why) => Some(why),
            _ => None,
        }
    }
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unresolved { names } => write!(f, "parameters without a value: {names:?}"),
            Self::Unknown { names } => write!(f, "values of unknown parameters: {names:?}"),
            Self::Repeated { name } => write!(f, "several values of the parameter {name:?}"),
            Self::Refused { name, value, why } => {
                write!(f, "the value {value:?} of the parameter {name:?} is refused: {why}")
            }
        }
    }
}

impl std::error::Error for ResolveError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bad_template_has_its_error() {
        let parameter =
            |component: &str| Err(TemplateError::Parameter { component: component.to_owned() });
        for (pattern, expected) in [
            ("/", Ok(())),
            ("/a/{b}/c", Ok(())),
            ("/{a_1}/{b}", Ok(())),
            ("a", Err(TemplateError::Path(PathError::Relative))),
            ("/{a}/", Err(TemplateError::Path(PathError::TrailingSlash))),
            ("/../{a}", Err(TemplateError::Path(PathError::RelativeComponent))),
            ("/{a}/{a}", Err(TemplateError::Repeated { name: "a".into() })),
            ("/{}", parameter("{}")),
            ("/{a b}", parameter("{a b}")),
            ("/x-{a}", parameter("x-{a}")),
            ("/{a", parameter("{a")),
            ("/a}", parameter("a}")),
        ] {
            assert_eq!(PathTemplate::parse(pattern).map(drop), expected, "{pattern}");
        }
    }

    #[test]
    fn values_are_checked_before_they_become_names() {
        let template = PathTemplate::parse("/a/{b}/{c}").unwrap();
        let resolve = |values: &[(&str, &str)]| {
            template.resolve(values.iter().copied()).map(|path| path.as_str().to_owned())
        };
        assert_eq!(resolve(&[("c", "2"), ("b", "1")]), Ok("/a/1/2".to_owned()));
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(resolve(&[]), Err(ResolveError::Unresolved { names: names(&["b", "c"]) }));
        assert_eq!(
            resolve(&[("b", "1"), ("d", "2")]),
            Err(ResolveError::Unknown { names: names(&["d"]) })
        );
        assert_eq!(
            resolve(&[("b", "1"), ("c", "2"), ("b", "1")]),
            Err(ResolveError::Repeated { name: "b".into() })
        );
        for (value, why) in
            [("", NameError::Empty), ("x/y", NameError::Slash), ("..", NameError::Relative)]
        {
            let (name, value) = ("c".to_owned(), value.to_owned());
            let given = value.clone();
            let refused = Err(ResolveError::Refused { name, value, why });
            assert_eq!(resolve(&[("b", "1"), ("c", &given)]), refused);
        }
        assert_eq!(PathTemplate::parse("/").unwrap().resolve([("", ""); 0]).unwrap().as_str(), "/");
    }

    #[test]
    fn parents_have_the_other_parameters() {
        let parent = |pattern: &'static str| {
            PathTemplate::parse(pattern).unwrap().parent().map(|parent| parent.to_string())
        };
        assert_eq!(parent("/a/{b}/{c}").as_deref(), Some("/a/{b}"));
        assert_eq!(parent("/{c}").as_deref(), Some("/"));
        assert_eq!(parent("/{c}/a"), None);
        assert_eq!(parent("/"), None);
    }
}
