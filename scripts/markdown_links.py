"""The links of Markdown pages, for check-links and build-book."""

import re

# Blocks and spans of code, in which nothing is a link.
CODE = re.compile(
    r"^(?P<indent>[ \t]*)(?P<fence>```+|~~~+).*?^(?P=indent)(?P=fence)[ \t]*$|(?P<tick>`+)(?!`).+?(?<!`)(?P=tick)(?!`)",
    re.M | re.S,
)
# The target of a link or of a reference. The text of the link may be code.
TARGET = re.compile(r"(?<=\]\()<?([^()\s>]+)>?(?=(?:\s+\"[^\"]*\")?\))|(?<=\]: )(\S+)")
SCHEME = re.compile(r"[a-z][a-z+.-]*:")


def with_targets(text, change):
    """Returns the text with each target changed that is within the repository. `change` gets the path and the anchor of a target,
    either of which may be empty, and returns the new target, or `None` for the same one."""

    def changed(match):
        target = match[1] or match[2]
        path, _, anchor = target.partition("#")
        new = None if SCHEME.match(target) else change(path, anchor)
        return match[0] if new is None else new

    parts, end = [], 0
    for code in CODE.finditer(text):
        parts += [TARGET.sub(changed, text[end : code.start()]), code[0]]
        end = code.end()
    return "".join(parts) + TARGET.sub(changed, text[end:])
