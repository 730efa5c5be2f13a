"""Changes of documents, as by an editor or by another program."""

import base64
import json
import zlib

import pytest

from jaxrob import Assessment
from jaxrob._codec import digest_of


def put(*path_and_value):
    """A change of one entry; a function makes the new value of the old one."""
    *path, last, value = path_and_value

    def change(document):
        for name in path:
            document = document[name]
        document[last] = value(document[last]) if callable(value) else value

    return change


def drop(*path):

    def change(document):
        for name in path[:-1]:
            document = document[name]
        del document[path[-1]]

    return change


def changed(text, change, digest_too=False):
    """The document after a change, with a new digest if it is to fit."""
    document = json.loads(text)
    change(document)
    if digest_too:
        del document["digest"]
        document["digest"] = digest_of(document)
    return json.dumps(document)


def assert_refused(text, change, message=None, read=Assessment.from_json, **how):
    """Checks that a document is no longer read after a change."""
    new = changed(text, change, **how)
    with pytest.raises(ValueError, match=message):
        read(new)


def packed(array):
    """An array as a document holds it."""
    data = base64.b64encode(zlib.compress(array.tobytes())).decode()
    return {"dtype": array.dtype.name, "base64_zlib": data}


def journal_line(text):
    """A line of a journal, with the checksum that fits."""
    return b"%08x %s\n" % (zlib.crc32(text), text)
