"""Results as one HTML page: gathered from folders, grouped over seeds, drawn and served."""
