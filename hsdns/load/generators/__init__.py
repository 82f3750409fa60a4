"""Several generators that carry out one plan: how they begin together, and how their reports become one."""
