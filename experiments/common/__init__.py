"""Code that the scripts share. They import it as `from common import gate`."""
