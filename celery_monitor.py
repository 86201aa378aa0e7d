"""The Celery application for beat and Flower. They can reach the broker, but not the database.

celery -A celery_monitor beat
celery -A celery_monitor flower
"""

from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.log import configure_logging

settings = Settings.from_env(without=("database_url", "secret_key"))
configure_logging(settings.log_level, settings.log_format)
celery = create_celery(settings, loads_tasks=False)
