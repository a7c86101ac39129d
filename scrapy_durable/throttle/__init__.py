"""How fast the site may be asked."""
