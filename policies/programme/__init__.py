"""The exact programme of P2: which jobs leave, by which method and when, at the least price."""
