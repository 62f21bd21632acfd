"""The pictures of a report, drawn by bokeh."""
