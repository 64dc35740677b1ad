"""The scripts of the scripts/ folder: each is a row of a table over the one engine."""
