"""A trace from the files of a recording, finished or still going on."""
