"""The web application, which each process of `migration_service.web_server` loads."""

from migration_service.app import create_app
from migration_service.config import Settings
from migration_service.loading import end_loading
from migration_service.log import configure_logging

settings = Settings.from_env()
configure_logging(settings.log_level, settings.log_format)
app = create_app(settings)
if settings.traces_endpoint:
    from migration_service.telemetry import trace_web

    trace_web(app)
end_loading()
