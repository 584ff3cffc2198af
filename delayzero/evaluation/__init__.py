"""Playing whole episodes to judge an agent."""
