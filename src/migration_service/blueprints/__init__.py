"""The HTTP interface, with a module for each resource. A view reads the request and calls one service."""
