from migration_service.services.tokens import Caller


def require_token():
    pass


def caller():
    return Caller(1, None)
