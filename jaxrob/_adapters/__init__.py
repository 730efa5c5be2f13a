"""Networks of other frameworks, as functions from images to class outputs.

They implement `Classifier.from_torch` and its siblings. Each framework is an optional
extra, and is imported when it is first needed.
"""
