"""``python -m gump.cli`` is the command ``gump``."""

from gump.cli import main

main()
