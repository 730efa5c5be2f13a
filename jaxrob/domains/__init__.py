"""Operating domains assessed: accepted volume, operating box, failure probability."""

# Its names are those of `jaxrob` itself.
__all__ = ()
