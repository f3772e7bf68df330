import time, threading
from datetime import timedelta
import pytest
from datarecs_postgres.database import Database
from datarecs_postgres.roles import API, WEBHOOK
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.clock import SystemClock, UuidV7Ids, random_fraction
from datarecs_runtime.secrets import Keyring, TenantSecrets
from datarecs_runtime.sections import Secrets
from datarecs_testing.builders import A_TENANT, an_id
from datarecs_testing.deliveries import *
from datarecs_testing.receiver import webhook_receiver
from datarecs_testing.metrics import RecordedMetrics
from datarecs_application.loops.webhook_sending import WebhookSending
from datarecs_application.webhooks import *
from datarecs_application.stored_specs import StoredSpecs
from datarecs_application.webhook_requests import RequestMaker
from datarecs_core.webhooks.endpoint import *
from datarecs_core.webhooks.signature import *
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.egress.urls import UrlRules
from datarecs_outbound.dialling import Dialling
from datarecs_outbound.http import GuardedHttp, GuardedTransport
from datarecs_outbound.webhook import GuardedWebhookClient
LOCAL = Policy(purpose=Purpose.WEBHOOK, profile=Profile.LOCAL)
@pytest.mark.integration
def test_bench(database):
    ids=UuidV7Ids(); api=Database(database.url(API)); own=Database(database.url(WEBHOOK))
    unit=PostgresUnitOfWork(own, ids); apiu=PostgresUnitOfWork(api, ids)
    store=TenantSecrets(Secrets(), keyring=Keyring({"kek-1":bytes(32)},current="kek-1"), environment={})
    specs=StoredSpecs(read_endpoint)
    with webhook_receiver() as receiver:
        eps=[]
        with apiu.begin(A_TENANT, feed=64) as tx:
            for n in range(20):
                e=an_endpoint(WebhookEndpoint(url=receiver.url, limits=Limits(rate_per_minute=6000,max_concurrent=8)), rv=tx.next_rv(), created_at=tx.now)
                tx.resources.add(e); eps.append(e)
                tx.secrets.put(e.uid,"signing","k1",store.seal(new_secret(bytes(32)).encode(),context=secret_context(A_TENANT,e.uid,"k1")))
        database.ask("UPDATE datarecs.webhook_endpoint_state SET last_success_at = now()")
        import structlog
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
        t=time.time(); N=100
        for n in range(N):
            ev=EventId(ids.new()); m=a_message(ev)
            with unit.begin(A_TENANT) as tx:
                fan_out(tx, IncomingEvent(event_id=ev,type=FINALISED,time=tx.now,attributes=m.attributes,data=b'{"a":"%s"}'%(b"x"*1000)), specs=specs, ids=ids, base_url="http://x")
        dt=time.time()-t; print("fanout rows/s", N*20/dt, "events/s", N/dt)
        database.ask("UPDATE datarecs.webhook_endpoint_state SET last_success_at = now()")
        loop=WebhookSending(PostgresWorkFinder(own),unit,GuardedWebhookClient(lambda: GuardedHttp(GuardedTransport(Dialling(policy=LOCAL),max_connections=256)),rules=UrlRules(policy=LOCAL)),
          leasing=Leasing(specs=specs,jitter=random_fraction,owner="w"),requests=RequestMaker(secrets=store,user_agent="x",child_trace=lambda _: "00-"+"a"*32+"-"+"b"*16+"-01"),metrics=RecordedMetrics(),clock=SystemClock())
        t=time.time()
        while len(receiver.requests)<N*20 and time.time()-t<60: loop.turn()
        dt=time.time()-t; print("deliveries/s", len(receiver.requests)/dt, dt)
        while loop.client.in_flight: loop.turn()
        loop.client.close()
    api.close(); own.close()
