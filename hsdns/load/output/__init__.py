"""What a run's report looks like: text, pages, and the forms of other programs."""
