"""The main jobs on real text that arrives with the install."""
