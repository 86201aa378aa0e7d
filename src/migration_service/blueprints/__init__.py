"""The HTTP interface: one module a resource. A view reads the request and makes one call into a service."""
