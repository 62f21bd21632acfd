"""What the reproductions share: claims, the result cache, the page."""
