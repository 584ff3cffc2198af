"""Records of finished runs, and a page that compares them with the paper's tables."""
