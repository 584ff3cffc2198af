"""Results beside the paper's tables: runs as records, and a page made of them."""
