"""python -m spansieve"""

from spansieve.cli import main

main()
