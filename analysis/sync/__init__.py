"""Who meets whom: block barriers, warp exchanges, and what may keep threads from them."""
