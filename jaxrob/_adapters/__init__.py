"""Networks and data of other frameworks, as functions and arrays.

They implement `Classifier.from_torch` and its siblings, `Dataset.from_items` and
`Dataset.from_batches`. Each framework is an optional extra, and is imported when it is
first needed; data are recognised by what they can do.
"""
