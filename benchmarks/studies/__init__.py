"""Do the promises of the scheduler hold? One module a claim; `docs/studies.md` tells what they found."""
