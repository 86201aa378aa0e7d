"""Everything that the drill runs: the servers, the service on its hosts, and what clients see of it."""

from pathlib import Path

from drill.feed import FeedReader
from drill.scene import VISIBILITY_TIMEOUT, Service
from failover.cluster import Cluster
from failover.hosts import ServiceHosts
from failover.namespaces import Network
from failover.pooler import Pooler
from failover.sentinels import Sentinels
from migration_service.db.revisions import upgrade
from migration_service_local.servers.postgres import DATABASE, OWNER


class World(Service):
    """A running service whose parts are on hosts of their own."""

    def __init__(self, folder: Path, patroni: Path, *, synchronous: bool, pooler: bool) -> None:
        self.folder = folder
        network = Network(folder)
        self.cluster = Cluster(network, patroni, synchronous=synchronous)
        self.sentinels = Sentinels(network)
        self.cluster.make_database()
        self.database_url = self.cluster.url()
        owner_url = self.cluster.url(OWNER)
        upgrade(owner_url, runtime_role=DATABASE)
        self.environment = {
            "DATABASE_URL": Pooler(network, self.cluster).url if pooler else self.database_url,
            "MIGRATION_SERVICE_DATABASE_POOLER": str(pooler),
            "REDIS_URL": self.sentinels.url,
            "MIGRATION_SERVICE_SECRET_KEY": "the drill's own key, of no use elsewhere",
            "MIGRATION_SERVICE_BROKER_VISIBILITY_TIMEOUT": str(VISIBILITY_TIMEOUT),
        }
        self.hosts = ServiceHosts(network, self.environment)
        self.hosts.start()
        self.redis = self.sentinels.connect()
        self.feed = FeedReader(self)
        self.prepare(self.hosts.url, owner_url, limit=64)
