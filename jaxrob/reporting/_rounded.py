"""What numbers that look certain mean."""

#: Explains intervals and errors that look like certainty.
ROUNDED = (
    "Numbers are rounded. An interval whose ends are equal means that at no level "
    "seen the band holds the threshold, however near it comes; a levels' error of "
    "± 0.0, that all levels that may be told apart were looked at, or that none of "
    "those between may cross the threshold. Neither means certainty."
)
