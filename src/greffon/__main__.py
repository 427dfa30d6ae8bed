"""`python -m greffon`."""

from greffon.cli import main

main()
