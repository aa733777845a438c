"""What each engine says of itself, in its own words. One engine a file; `dialect.of` finds it by the policy's name."""
