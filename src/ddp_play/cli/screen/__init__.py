"""The full-screen view of a run: state and keys in, rows of styled text out; one module draws them on a terminal."""
