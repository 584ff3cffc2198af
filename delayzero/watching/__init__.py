"""Watching an agent: its episodes recorded moment by moment, drawn, as a video and as a page."""
