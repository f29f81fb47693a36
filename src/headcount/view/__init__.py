"""What people look at: the style of figures, heat maps of agreement, tables in the terminal."""
