"""Which options of HAKMEM serve a program of the user's best."""
