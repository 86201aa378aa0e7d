"""`python -m migration_service_client` is `migration-client`."""

from migration_service_client.command import main

if __name__ == "__main__":
    main(prog_name="migration-client")
