"""What the verbs do: each module is one verb's work, over planning and the two seams."""
