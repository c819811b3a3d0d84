"""The training trajectory of a network as files: figures, arrays, a table and a report page."""
