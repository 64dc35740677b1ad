"""python -m hakmem_lab"""

from .cli import whole
from .front import main

whole(main)
