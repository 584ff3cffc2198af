"""Playing whole episodes to judge an agent, and comparing agents."""
