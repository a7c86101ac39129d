"""What the response store keeps of this site: how pages are named, and what is left out of them."""
