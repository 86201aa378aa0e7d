"""Marshmallow: the fields of an account payload (section 2.3), and the fast way through them."""
