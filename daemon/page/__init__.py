"""The page: a view of a running daemon in a browser, for those who may read its journal. Changes nothing."""
