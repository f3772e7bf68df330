#!/bin/sh
# Starts one Kafka node for docker-compose.yml: TLS and SCRAM for clients, access rules on.
# The image's own start script creates no SCRAM login, so nobody could log in.
set -eu
umask 077
password=$(cat /run/secrets/kafka-admin)
login="required username=\"admin\" password=\"$password\""
package=org.apache.kafka.common.security
cat > /tmp/server.properties <<END
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
listeners=BROKER://:9092,CONTROLLER://127.0.0.1:9093
advertised.listeners=BROKER://kafka:9092
listener.security.protocol.map=BROKER:SASL_SSL,CONTROLLER:SASL_PLAINTEXT
inter.broker.listener.name=BROKER
controller.listener.names=CONTROLLER
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
sasl.mechanism.controller.protocol=PLAIN
listener.name.broker.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.broker.scram-sha-512.sasl.jaas.config=$package.scram.ScramLoginModule $login;
listener.name.controller.sasl.enabled.mechanisms=PLAIN
listener.name.controller.plain.sasl.jaas.config=$package.plain.PlainLoginModule $login user_admin="$password";
ssl.keystore.type=PEM
ssl.keystore.location=/run/secrets/kafka.pem
ssl.truststore.type=PEM
ssl.truststore.location=/run/secrets/ca.crt
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=false
super.users=User:admin
log.dirs=/var/lib/kafka/data/log
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=8
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=8
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
END
if [ ! -e /var/lib/kafka/data/log/meta.properties ]; then
  /opt/kafka/bin/kafka-storage.sh format -t "$(/opt/kafka/bin/kafka-storage.sh random-uuid)" \
    -c /tmp/server.properties --add-scram "SCRAM-SHA-512=[name=admin,password=$password]"
fi
exec /opt/kafka/bin/kafka-server-start.sh /tmp/server.properties
