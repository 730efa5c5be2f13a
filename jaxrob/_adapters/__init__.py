"""Networks of other frameworks, as functions from images to class outputs.

`Classifier.from_torch` and the like are made of this. Each framework is imported where
it is first needed, and is an optional extra.
"""
