"""Operating domains assessed: accepted volume, operating box, failure probability."""
