"""`lab scale`: what passes between CPUs, counted on a simulated machine."""
