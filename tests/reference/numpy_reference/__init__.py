"""The library's definitions once more: slow, in plain NumPy, image by image.

Written from the documentation and the papers, not from the library's code, so that the
two can be wrong together only where the definitions are.
"""
