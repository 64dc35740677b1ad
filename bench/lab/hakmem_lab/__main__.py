import sys

from .suites.front import main

sys.exit(main())
