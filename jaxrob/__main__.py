"""`python -m jaxrob`, the same as the command `jaxrob`."""

import sys

from jaxrob._command.run import main

if __name__ == "__main__":
    sys.exit(main())
